"""Devices whose examples cannot be used, as processes: a clear message on each, a counted reason at the coordinator."""

import time

import numpy as np
import pytest

from nightjar.experiments.silos.federation import FederatedPlan, Federation
from nightjar.experiments.silos.hosts import Loopback
from nightjar.simulation.demo.classification import export
from nightjar.simulation.demo.processes import outcome, quiet_child, stopping
from nightjar.simulation.demo.reading import state_from

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.tflite, pytest.mark.tensorflow]

GOOD = "a,b,label\n" + "1,2,cat\n2,1,dog\n" * 20
BAD = {
    "unlabelled": ("labels-missing", "rows.csv: expected a header with the column 'label'"),
    "half-labelled": ("labels-missing", "rows.csv line 2: expected a label in the column 'label'"),
    "text": ("not-a-number", "rows.csv line 3, column 'b': expected a number, got 'many'"),
    "sizes": ("different-shapes", "expected examples of one shape, got (2, 2, 1), (3, 3, 1)"),
}


def write_examples(folder):
    from PIL import Image

    rows = {
        "good": GOOD,
        "stranger": GOOD + "5,5,unicorn\n",
        "unlabelled": "a,b\n1,2\n",
        "half-labelled": "a,b,label\n1,2,\n",
        "text": "a,b,label\n1,2,cat\n1,many,dog\n",
    }
    for name, text in rows.items():
        (folder / name).mkdir()
        (folder / name / "rows.csv").write_text(text)
    for size, kind in ((2, "cat"), (3, "dog")):
        (folder / "sizes" / kind).mkdir(parents=True)
        Image.fromarray(np.zeros((size, size), np.uint8)).save(folder / "sizes" / kind / "1.png")
    return {name: folder / name for name in (*rows, "sizes")}


@pytest.mark.timeout(900)
def test_bad_examples_are_said_on_the_device_and_counted_at_the_coordinator(tmp_path):
    given = write_examples(tmp_path)
    with quiet_child(tmp_path / "export.log") as child:
        outcome(child.submit(export, "logistic", given["good"], tmp_path / "model", 0), "the export")
    plan = FederatedPlan(1, 5, 0.1, 1.0)
    federation = Federation(tmp_path / "run", tmp_path / "model", given, plan, [Loopback()] * (1 + len(given)), 0)
    wanted = [f"its examples cannot be used: {problem}" for problem, _ in BAD.values()]

    def log(name):
        return (tmp_path / "run" / f"{name}.log").read_text().replace('\\"', "'")

    def all_said():
        state, page = state_from(federation.get), (federation.get("/tasks/silos") or b"").decode()
        dropouts = {} if state is None else state["counters"]["dropouts"]
        return dropouts.get("bad-examples") and "2: " + wanted[0] in page and all(each in page for each in wanted)

    with stopping(federation.groups):
        federation.start()
        deadline = time.monotonic() + 600
        while not all_said():
            assert time.monotonic() < deadline, {name: log(name)[-500:] for name in given}
            time.sleep(0.5)
    for name, (_, message) in BAD.items():
        assert message in log(name), log(name)
    assert "label 'unicorn' is none of the model's classes: cat, dog" in log("stranger")
    assert "unicorn" not in (tmp_path / "run/coordinator.log").read_text()
