import shutil

import pytest

from nightjar.edge_agent.commands import train_once as module


@pytest.fixture
def with_model(place, exported):
    """An agent that has fetched a model and in which somebody typed."""
    place.move_in(*(" ".join(exported.words[number : number + 8]) for number in range(40)))
    folder = place.data / "artifacts"
    folder.mkdir()
    for name, data in exported.artifacts.items():
        (folder / name).write_bytes(data)
    (folder / "current").write_text(exported.model.sha256)
    return place


@pytest.mark.tflite
def test_a_session_says_what_it_took_and_leaves_everything_as_it_was(with_model):
    before = with_model.json("status", status=4)
    session = with_model.json("train-once", "--max-steps", "3")
    assert session["trained"]
    assert 1 <= session["steps"] <= 3
    assert session["examples"] > 100
    assert session["loss"] > 0
    assert 0 < session["report_bytes"] < 100_000
    assert with_model.json("status", status=4) == before


@pytest.mark.tflite
def test_a_device_that_may_not_train_does_not_unless_told_whatever(with_model):
    with_model.tree.supply("BAT0", status="Discharging")
    session = with_model.json("train-once", "--max-steps", "3", status=4)
    assert (session["trained"], session["reason"]) == (False, "not charging")
    assert with_model.json("train-once", "--max-steps", "3", "--whatever")["trained"]


@pytest.mark.tflite
def test_a_condition_that_is_lost_in_the_middle_stops_it_and_is_the_reason(with_model, monkeypatch):
    looked = []
    real = module.looks

    def looks(config):
        for look in real(config):
            if looked:
                with_model.tree.supply("BAT0", status="Discharging")
            looked.append(look)
            yield look

    monkeypatch.setattr(module, "looks", looks)
    session = with_model.json("train-once", "--epochs", "1000", "--max-steps", "1000000", status=4)
    assert (session["trained"], session["reason"]) == (False, "not charging")


def test_without_a_model_there_is_nothing_to_train(place):
    place.move_in("hello there")
    assert "there is no model" in place.run("train-once", status=2)
    shutil.rmtree(place.data)
    assert "there is no model" in place.run("train-once", status=2)
