"""Event files are read with TensorFlow's own reader, as TensorBoard reads them."""

import msgspec
import pytest

from nightjar.simulation.laboratory.checkpoint import Point
from nightjar.simulation.laboratory.event_files import FILES, event_files

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

CURVE = [
    Point(round=0, loss=4.0, top1=0.0, top3=0.25),
    Point(round=10, loss=3.5, top1=0.125, top3=0.5, train_loss=3.75, report_bytes=1700, bytes_down=9000),
    Point(round=20, loss=3.0, top1=0.25, top3=0.5, held_out_top1=0.5, held_out_top3=0.75),
]


def read(folder):
    """The figures of each round, of all event files."""
    import tensorflow as tf

    found = {}
    for path in sorted(folder.glob(FILES)):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                assert (event.step, value.tag) not in found, "twice"
                found[event.step, value.tag] = value.simple_value
    return found


def figures(curve):
    points = [msgspec.structs.asdict(point) for point in curve]
    return {
        (p["round"], tag): value for p in points for tag, value in p.items() if tag != "round" and value is not None
    }


def test_each_figure_of_each_measurement_can_be_read_as_soon_as_it_is_written(tmp_path):
    with event_files(tmp_path) as write:
        for count in (1, 2, 3, 3):
            write(CURVE[:count])
            assert read(tmp_path) == figures(CURVE[:count])
    assert read(tmp_path) == figures(CURVE)


def test_a_resumed_run_has_each_figure_once(tmp_path):
    for count in (2, 3):
        with event_files(tmp_path) as write:
            write(CURVE[:count])
    assert read(tmp_path) == figures(CURVE)
