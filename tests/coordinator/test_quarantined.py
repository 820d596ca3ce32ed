"""What the driver does with messages that process after process died of, and with those that it survives."""

import numpy as np
import pytest

from coordinator.core.seats import SeatState
from coordinator.inbox import MessageArrived, Ticked
from coordinator.ports import Standing
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model
from wire.messages import Receipt, Verdict


class FakeQuarantine:
    """Says of every report what the test wants."""

    def __init__(self) -> None:
        self.standing = Standing.CLEAR
        self.story: list[str] = []

    def hand_out(self, messages):
        for message in messages:
            self.story.append("take")
            yield message, self.standing if message.topic.endswith("/report") else Standing.CLEAR

    def let_go(self) -> None:
        if self.story[-1:] in (["take"], ["keep"]):
            self.story.append("let go")

    def keep(self, message) -> str:
        self.story.append("keep")
        return "a file"


@pytest.fixture
def world(tmp_path):
    one = World(write_model(tmp_path), tmp_path)
    one.driver._quarantine = FakeQuarantine()
    one.check_in("a", "b")
    one.driver._quarantine.story.clear()
    return one


def report(world, device="a"):
    data = report_frame(world.assignment(device), np.ones(LAYOUT.size, np.float32), LAYOUT)
    world.receive(device, "report", data)
    return world.transport.to(device, Receipt)


def test_each_message_is_in_hand_while_it_is_looked_into(world):
    assert report(world)[-1].verdict is Verdict.ACCEPTED
    assert world.driver._quarantine.story == ["take", "let go"]


def test_in_a_batch_only_one_message_is_in_hand_and_none_while_something_else_is_done(world):
    def event(kind):
        return MessageArrived(f"nightjar/1/demo/up/0/a/{kind}", b"rubbish")

    world.driver.handle(event("check-in"), event("query"), Ticked(), event("dropout"))
    assert world.driver._quarantine.story == ["take", "take", "let go", "take", "let go"]


def test_a_condemned_report_is_kept_counted_answered_and_settles_its_seat(world):
    world.driver._quarantine.standing = Standing.CONDEMNED
    told = report(world)[-1]
    assert (told.verdict, told.code) == (Verdict.INVALID, "quarantined")
    assert world.driver._quarantine.story == ["take", "keep", "let go"]
    assert world.tables.rounds[1].seats["a"].state is SeatState.REFUSED
    assert world.counters["messages_quarantined"] == 1
    assert world.acknowledged == 3
    assert report(world)[-1].code == "quarantined", "as often as it comes"


def test_a_condemned_report_of_no_round_or_without_a_header_is_answered_or_passed_over(world):
    asked = world.assignment("a")
    world.driver._quarantine.standing = Standing.CONDEMNED
    other = report_frame(
        type(asked)(**{f: getattr(asked, f) for f in asked.__struct_fields__} | {"round": 99}),
        np.ones(LAYOUT.size, np.float32),
        LAYOUT,
    )
    world.receive("a", "report", other)
    assert world.transport.to("a", Receipt)[-1].code == "not-selected"
    world.receive("a", "report", b"rubbish")
    assert len(world.transport.to("a", Receipt)) == 1
    assert world.acknowledged == 4


def test_a_report_whose_refusal_was_deadly_too_is_only_acknowledged(world):
    world.driver._quarantine.standing = Standing.UNTOUCHABLE
    assert report(world) == []
    assert world.counters["messages_quarantined"] == 1
    assert world.acknowledged == 3


def test_an_exception_is_survived_and_blames_nobody(world, monkeypatch):
    def fail(*_):
        raise RuntimeError("a defect")

    monkeypatch.setattr(world.driver._intake, "take", fail)
    assert report(world) == []
    assert world.driver._quarantine.story == ["take", "let go"]
    assert world.counters["malformed_messages"] == 1
