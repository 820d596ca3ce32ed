import numpy as np
import pytest

from nightjar.edge_agent.commands import self_test as module
from tests.edge_agent.commands.test_train_once import with_model  # noqa: F401 - a fixture


@pytest.mark.tflite
def test_an_installation_that_trains_passes_whatever_the_conditions_are(with_model):  # noqa: F811
    with_model.tree.supply("BAT0", status="Discharging")
    tested = with_model.json("self-test")
    assert tested["passed"]
    assert len(tested["losses"]) == module.STEPS
    assert tested["losses"][-1] < tested["losses"][0]
    assert tested["runtime"]


@pytest.mark.tflite
def test_without_a_model_the_runtime_at_least_is_loaded_and_that_is_said(place):
    assert place.json("self-test") == {
        "passed": True,
        "reason": "no model here yet: only the runtime was loaded",
        "runtime": place.json("self-test")["runtime"],
        "losses": [],
    }


@pytest.mark.tflite
@pytest.mark.parametrize(("losses", "reason"), [((5.0, np.nan, 4.0), "not finite"), ((5.0, 5.0, 5.0), "did not fall")])
def test_a_training_that_does_not_work_fails(with_model, monkeypatch, losses, reason):  # noqa: F811
    monkeypatch.setattr(module, "train_steps", lambda model: losses)
    assert reason in with_model.json("self-test", status=4)["reason"]
