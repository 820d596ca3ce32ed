"""The curve of a run as TensorBoard event files, beside ``metrics.jsonl``: ``tensorboard --logdir OUT`` shows it live.

TensorFlow's own writer writes them; it is imported only here, and takes seconds to import.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from nightjar.models.child_environment import child_environment
from nightjar.simulation.laboratory.checkpoint import Point

FILES = "events.out.tfevents.*"


@contextlib.contextmanager
def event_files(folder: Path) -> Iterator[Callable[[Sequence[Point]], None]]:
    """Write the points of a curve as they come: one tag for each figure, with the round as the step.

    Files of an earlier, interrupted run in the folder are replaced.

    Yields:
        A function to call with the curve so far, as often as wanted; points that it has seen are not written again.
    """
    os.environ |= child_environment(os.environ)
    import tensorflow as tf

    for old in folder.glob(FILES):
        old.unlink()
    writer = tf.summary.create_file_writer(str(folder))
    summary, written = tf.compat.v1.Summary, 0

    def write(curve: Sequence[Point]) -> None:
        nonlocal written
        with writer.as_default():
            for point in curve[written:]:
                figures = {name: value for name, value in msgspec.structs.asdict(point).items() if value is not None}
                step = figures.pop("round")
                values = [summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
                tf.summary.experimental.write_raw_pb(summary(value=values).SerializeToString(), step=step)
        writer.flush()
        written = len(curve)

    try:
        yield write
    finally:
        writer.close()
