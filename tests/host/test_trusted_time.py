from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.host import system_clock
from nightjar.host.system_clock import TrustedClock, read_clock
from nightjar.host.trusted_time import LONGEST_STOP_S, MARK_EVERY_S, ClockReading, TimeMark, distrust, mark_due
from nightjar.wire.errors import UnavailableError

NOW_S = 1_795_000_000.0
HOUR_S, DAY_S, YEAR_S = 3600.0, 86_400.0, 365.25 * 86_400.0
WRONG = {
    "1970": -NOW_S,
    "an hour back": -HOUR_S,
    "30 days back": -30 * DAY_S,
    "400 days back": -400 * DAY_S,
    "a year ahead": YEAR_S,
    "20 years ahead": 20 * YEAR_S,
}


@dataclass
class Machine:
    """A machine whose clock may be set; what a process makes durable outlives the process."""

    right_s: float = NOW_S
    running_s: float = 100.0
    wrong_by_s: float = 0.0
    synchronised: bool = False
    durable: list[float] = field(default_factory=list)
    full: bool = False

    def read(self):
        return ClockReading(self.right_s + self.wrong_by_s, self.running_s, self.synchronised)

    def keep(self, now_s):
        if self.full:
            raise UnavailableError("the disk is full")
        self.durable.append(now_s)

    def passes(self, seconds):
        self.right_s += seconds
        self.running_s += seconds

    def start(self):
        return TrustedClock(self.durable[-1] if self.durable else None, self.keep, self.read)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("wrong_by_s", WRONG.values(), ids=WRONG)
def test_a_clock_that_is_wrong_for_a_while_is_not_believed_and_is_again_once_corrected(wrong_by_s, restarted):
    machine = Machine()
    clock = machine.start()
    clock.take()
    machine.passes(60)
    assert clock.now_s() == machine.right_s

    machine.wrong_by_s = wrong_by_s
    clock = machine.start() if restarted else clock
    machine.passes(60)
    assert clock.now_s() is None
    assert "known to be right" in clock.distrust()

    machine.wrong_by_s = 0.0
    clock = machine.start() if restarted else clock
    assert clock.now_s() == machine.right_s
    assert clock.distrust() == ""
    assert max(machine.durable) <= machine.right_s


def test_a_new_machine_without_a_time_source_trusts_nothing_until_somebody_says_so():
    machine = Machine()
    clock = machine.start()
    assert clock.now_s() is None
    assert "nothing says yet" in clock.distrust()
    clock.take()
    assert clock.now_s() == NOW_S


def test_a_synchronised_clock_is_trusted_whatever_was_known_before_and_replaces_it():
    machine = Machine(durable=[NOW_S + 20 * YEAR_S], synchronised=True)
    clock = machine.start()
    assert clock.now_s() == NOW_S
    machine.synchronised = False
    machine.passes(60)
    assert machine.start().now_s() == machine.right_s


def test_a_stop_of_a_day_is_bridged_and_a_longer_one_is_not():
    machine = Machine(durable=[NOW_S])
    machine.passes(LONGEST_STOP_S)
    machine.running_s = 1.0
    assert machine.start().now_s() == machine.right_s
    machine = Machine(durable=[NOW_S])
    machine.passes(LONGEST_STOP_S + 1)
    assert machine.start().now_s() is None


def test_a_clock_that_runs_for_weeks_on_a_full_disk_stays_trusted():
    machine = Machine(durable=[NOW_S])
    clock = machine.start()
    machine.passes(MARK_EVERY_S)
    assert clock.now_s() is not None
    machine.full = True
    for _ in range(21):
        machine.passes(DAY_S)
        assert clock.now_s() == machine.right_s
    machine.full = False
    clock.now_s()
    assert machine.durable[-1] == machine.right_s


def test_the_time_is_made_durable_once_an_hour():
    machine = Machine(durable=[NOW_S])
    clock = machine.start()
    for _ in range(24 * 60):
        machine.passes(60)
        clock.now_s()
    assert len(machine.durable) - 1 == 24


def test_a_clock_cannot_be_led_away_by_small_steps_within_a_process():
    machine = Machine(durable=[NOW_S])
    clock = machine.start()
    clock.now_s()
    for _ in range(100):
        machine.wrong_by_s += DAY_S / 2
        clock.now_s()
    assert max(machine.durable) <= NOW_S + 2 * LONGEST_STOP_S  # one over the stop before, one since


times = st.floats(0, 4e9)


@given(mark_s=st.none() | times, wall_s=times, running_s=times)
def test_what_is_marked_was_trusted_and_never_goes_back_unless_the_kernel_says_so(mark_s, wall_s, running_s):
    mark, reading = None if mark_s is None else TimeMark(mark_s), ClockReading(wall_s, running_s, synchronised=False)
    if mark_due(mark, reading):
        assert distrust(mark, reading) == ""
        assert mark is not None
        assert mark.wall_s <= wall_s <= mark.wall_s + LONGEST_STOP_S


def test_the_machine_can_be_read():
    reading = read_clock()
    assert reading.wall_s > NOW_S
    assert read_clock().running_s >= reading.running_s


def test_the_kernels_word_does_not_count_for_a_process_that_has_another_time(monkeypatch):
    monkeypatch.setattr(system_clock, "SYNCHRONISED", system_clock.Path("/nowhere"))
    assert not system_clock._synchronised(0.0)
