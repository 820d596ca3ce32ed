import numpy as np
import pytest

from nightjar.simulation.rounds.broker import WILL_AFTER_S, Broker
from nightjar.simulation.rounds.faults import Dice
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.wire import topics
from nightjar.wire.identifiers import DeviceId, Population

WHERE = Population("simulation")
UP = topics.up(WHERE, DeviceId("a"), "check-in", 1)
DOWN = topics.down(WHERE, DeviceId("a"), "receipt")
STATUS = topics.status(WHERE, DeviceId("a"))
ANNOUNCE = topics.announce(WHERE)
WILL = (STATUS, b"gone")


class FakePhone:
    device = DeviceId("a")
    awake = True

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self.up = False

    def arrived(self, topic: str, payload: bytes) -> None:
        self.heard.append((topic, payload))

    def link_up(self) -> None:
        self.up = True

    def link_down(self) -> None:
        self.up = False


class Setting:
    """A broker with one phone and a coordinator that acknowledges when the test says so."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.broker = Broker(self.timeline, Dice([], 1.0, np.random.default_rng(0)), WHERE, lambda *_: None)
        self.phone = FakePhone()
        self.heard: list[tuple[str, bytes, bool]] = []
        self.acknowledge = True

    def deliver(self, topic, payload, retained, acknowledge) -> None:
        self.heard.append((topic, payload, retained))
        if self.acknowledge:
            acknowledge()

    def connect_phone(self) -> None:
        self.broker.connect(self.phone, WILL, lambda: not self.phone.up)
        self.wait()

    def connect_coordinator(self) -> None:
        self.broker.connect_coordinator(self.deliver, lambda: True)
        self.wait()

    def wait(self, seconds: float = 5.0) -> None:
        end_s = self.timeline.now_s + seconds
        self.timeline.at(end_s, lambda: None)
        self.timeline.run(lambda: False, end_s)


@pytest.fixture
def setting() -> Setting:
    setting = Setting()
    setting.connect_phone()
    return setting


def test_messages_pass_both_ways(setting):
    setting.connect_coordinator()
    assert setting.broker.from_phone(UP, b"here", retain=False)
    setting.broker.from_coordinator(DOWN, b"accepted", retain=False)
    setting.wait()
    assert setting.heard == [(UP, b"here", False)]
    assert setting.phone.heard == [(DOWN, b"accepted")]


def test_what_the_coordinator_did_not_acknowledge_comes_again(setting):
    setting.connect_coordinator()
    setting.acknowledge = False
    setting.broker.from_phone(UP, b"here", retain=False)
    setting.wait()
    setting.broker.coordinator_vanished()
    setting.acknowledge = True
    setting.connect_coordinator()
    setting.broker.coordinator_vanished()
    setting.connect_coordinator()
    assert setting.heard == [(UP, b"here", False)] * 2


def test_what_comes_while_the_coordinator_is_away_waits_for_it(setting):
    setting.broker.from_phone(UP, b"here", retain=False)
    setting.wait()
    setting.connect_coordinator()
    assert setting.heard == [(UP, b"here", False)]


def test_what_comes_while_a_phone_is_away_is_lost(setting):
    setting.connect_coordinator()
    setting.broker.vanished(setting.phone, WILL)
    setting.wait(WILL_AFTER_S + 5)
    setting.broker.from_coordinator(DOWN, b"accepted", retain=False)
    setting.phone.up = False
    setting.connect_phone()
    assert setting.phone.heard == []
    assert setting.broker.lost["phone away"] == 1


def test_the_will_of_a_phone_is_told_once_its_silence_is_noticed(setting):
    setting.connect_coordinator()
    setting.broker.vanished(setting.phone, WILL)
    setting.wait(WILL_AFTER_S - 1)
    assert setting.heard == []
    setting.wait(2)
    assert setting.heard == [(STATUS, b"gone", False)]


def test_a_phone_that_is_back_before_has_its_will_told_first(setting):
    setting.connect_coordinator()
    setting.broker.vanished(setting.phone, WILL)
    setting.phone.up = False
    setting.connect_phone()
    setting.broker.from_phone(STATUS, b"back", retain=True)
    setting.wait(WILL_AFTER_S + 5)
    assert setting.heard == [(STATUS, b"gone", False), (STATUS, b"back", False)]


def test_retained_messages_meet_whoever_connects(setting):
    setting.broker.from_phone(STATUS, b"idle", retain=True)
    setting.wait()
    setting.connect_coordinator()
    setting.broker.from_coordinator(ANNOUNCE, b"model", retain=True)
    setting.wait()
    assert (STATUS, b"idle", True) in setting.heard
    setting.broker.restart(1.0, forget=False)
    setting.wait(1.5)
    setting.connect_phone()
    assert setting.phone.heard == [(ANNOUNCE, b"model")] * 2


@pytest.mark.parametrize(("forget", "heard"), [(False, [(UP, b"here", False)]), (True, [])])
def test_a_broker_that_restarts_keeps_its_session_or_forgets_it(setting, forget, heard):
    setting.broker.from_phone(UP, b"here", retain=False)
    setting.wait()
    setting.broker.restart(10.0, forget=forget)
    assert not setting.phone.up
    assert not setting.broker.from_phone(UP, b"nobody takes it", retain=False)
    setting.connect_coordinator()
    assert setting.heard == []
    setting.wait(30)
    assert setting.heard == heard
