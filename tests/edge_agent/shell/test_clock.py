from dataclasses import dataclass

import pytest

from nightjar.edge_agent.shell import clock as clocks
from nightjar.edge_agent.shell.clock import FILE, SystemClock
from nightjar.edge_agent.shell.database import Caps, Database
from nightjar.host.trusted_time import ClockReading
from tests.host.test_trusted_time import DAY_S, HOUR_S, NOW_S, WRONG

CAPS = Caps(messages=1000, total_bytes=100_000, age_s=90 * DAY_S)


@dataclass
class Machine:
    right_s: float = NOW_S
    running_s: float = 50.0
    wrong_by_s: float = 0.0
    synchronised: bool = False

    def read(self):
        return ClockReading(self.right_s + self.wrong_by_s, self.running_s, self.synchronised)

    def passes(self, seconds):
        self.right_s += seconds
        self.running_s += seconds


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(clocks, "read_clock", machine.read)
    return machine


class Device:
    """A device with a keyboard: the agent keeps the time, the database's process reads it."""

    def __init__(self, folder):
        self.folder = folder
        self.start()

    def start(self):
        self.agent = SystemClock(self.folder, keeps=True)
        self.database = Database(self.folder / "agent.db", CAPS, SystemClock(self.folder))

    def restart(self):
        self.database.close()
        self.start()

    def types(self, text):
        self.database.add(text)
        self.database.note_own_words([(f"own{text}", f"own{text}")])
        self.agent.trusted_s()

    @property
    def holds(self):
        return self.database.texts(), {word.word for word in self.database.own_words()}


@pytest.fixture(params=["always", "once", "never"], ids=lambda when: f"synchronised-{when}")
def device(request, tmp_path, machine):
    machine.synchronised = request.param != "never"
    device = Device(tmp_path)
    device.agent.compare(NOW_S)
    device.types("before")
    machine.synchronised = request.param == "always"
    yield device
    device.database.close()


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("wrong_by_s", WRONG.values(), ids=WRONG)
def test_nothing_typed_is_lost_by_a_clock_that_is_wrong_for_a_while(device, machine, wrong_by_s, restarted):
    always = machine.synchronised
    machine.synchronised, machine.wrong_by_s = False, wrong_by_s
    if restarted:
        device.restart()
    machine.passes(60)
    device.types("meanwhile")
    machine.synchronised, machine.wrong_by_s = always, 0.0
    if restarted:
        device.restart()
    machine.passes(60)
    device.types("after")
    assert device.holds == (["before", "meanwhile", "after"], {"ownbefore", "ownmeanwhile", "ownafter"})
    assert device.agent.trusted_s() == machine.right_s

    machine.synchronised = True
    device.types("synchronised")
    machine.passes(91 * DAY_S)  # and all of it goes when it is old
    assert device.database.texts() == []


def test_a_board_that_starts_where_it_stopped_dates_nothing_before_it_is_synchronised(tmp_path, machine):
    machine.synchronised = True
    device = Device(tmp_path)
    device.types("before")
    machine.synchronised = False
    machine.passes(120 * DAY_S)
    machine.wrong_by_s = -120 * DAY_S  # as the file said that it was stopped
    device.restart()
    device.types("before the time server answers")
    assert device.agent.trusted_s() is not None
    machine.synchronised, machine.wrong_by_s = True, 0.0
    device.types("after")
    assert device.database.texts() == ["before the time server answers", "after"]
    device.database.close()


def test_a_phone_whose_kernel_says_nothing_knows_the_time_once_an_order_agrees(tmp_path, machine):
    agent = SystemClock(tmp_path, keeps=True)
    assert agent.trusted_s() is None
    agent.compare(NOW_S + 2 * DAY_S)
    assert agent.trusted_s() is None
    agent.compare(NOW_S - HOUR_S)
    assert agent.trusted_s() == NOW_S
    assert SystemClock(tmp_path).certain_s() == NOW_S

    machine.passes(7 * DAY_S)
    machine.running_s = 1.0
    agent = SystemClock(tmp_path, keeps=True)  # it was off for a week
    assert "more than a day after" in agent.distrust()
    agent.compare(machine.right_s)
    assert agent.trusted_s() == machine.right_s


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"newest_s": "x"}', b"[]"])
def test_a_damaged_file_of_the_time_is_as_none(tmp_path, machine, content):
    (tmp_path / FILE).write_bytes(content)
    agent = SystemClock(tmp_path, keeps=True)
    assert agent.trusted_s() is None
    agent.compare(NOW_S)
    assert SystemClock(tmp_path).trusted_s() == NOW_S
