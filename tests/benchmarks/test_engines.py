"""A small run of the laboratory beside its steps; the other engines are not in the locks, so CI measures ours alone."""

import pytest

from nightjar.benchmarks import engines


@pytest.mark.verify
@pytest.mark.tflite
@pytest.mark.tensorflow
def test_ours_is_measured_beside_its_steps_and_engines_that_are_not_installed_are_named(monkeypatch):
    absent = engines.Engine("absent", "absent", ("absent_module",), lambda *_: pytest.fail("it is not installed"))
    monkeypatch.setattr(engines, "PEERS", (absent,))
    found = engines.measure(1, 2, ["split.minimum_messages=450"])
    assert -1 < found["overhead"] < 10
    (ours,) = found["engines"]
    assert ours["name"] == "Nightjar"
    assert ours["version"]
    assert ours["clients_per_s"] > 0
    assert found["missing"] == ["absent"]
