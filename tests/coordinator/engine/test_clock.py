"""The service's clock: what a wrong clock does to it, and what it never does to what was signed and stored."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.engine.clock import SteadyClock
from nightjar.host.trusted_time import ClockReading
from nightjar.wire.errors import UnavailableError

NOW_S, HOUR_S, DAY_S = 1.8e9, 3600.0, 86_400.0
YEAR_S = 365 * DAY_S


class Machine:
    """A machine whose clock can be wrong, and what its coordinator made durable."""

    def __init__(self) -> None:
        self.right_s, self.wrong_by_s, self.synchronised = NOW_S, 0.0, False
        self.saved: list[float] = []
        self.full = False

    def read(self) -> ClockReading:
        return ClockReading(self.right_s + self.wrong_by_s, self.right_s, self.synchronised)

    def save(self, seconds: float) -> None:
        if self.full:
            raise UnavailableError("the disk is full")
        self.saved.append(seconds)

    def start(self, *, trust: bool = False) -> SteadyClock:
        return SteadyClock(self.saved[-1] if self.saved else None, self.save, trust=trust, read=self.read)

    def at_1970(self) -> None:
        self.wrong_by_s = -self.right_s


def wrong(machine, by_s):
    if by_s is None:
        machine.at_1970()
    else:
        machine.wrong_by_s = by_s


WRONG = [None, YEAR_S, 20 * YEAR_S, -30 * DAY_S, -400 * DAY_S]
IDS = ["1970", "a year ahead", "20 years ahead", "30 days back", "400 days back"]


@pytest.mark.parametrize("by_s", WRONG, ids=IDS)
@pytest.mark.parametrize("restart", [False, True])
def test_a_wrong_clock_moves_nothing_and_is_right_as_soon_as_it_is_corrected(by_s, restart):
    machine = Machine()
    clock = machine.start()
    machine.right_s += 10 * 60
    assert clock.trusted_s() == machine.right_s
    wrong(machine, by_s)
    if restart:
        clock = machine.start()
    for _ in range(100):
        machine.right_s += 60
        assert clock.trusted_s() is None
        assert clock.distrust()
        assert -11 * 60 <= clock.now_s() - machine.right_s <= 0
        clock.keep()
    assert machine.saved == [NOW_S], "nothing wrong was made durable"
    machine.wrong_by_s = 0.0
    assert clock.trusted_s() == clock.now_s() == machine.right_s
    assert not clock.distrust()


@pytest.mark.parametrize("restart", [False, True])
def test_an_hour_back_costs_nothing(restart):
    machine = Machine()
    clock = machine.start()
    machine.right_s += 30 * 60
    assert clock.trusted_s() is not None
    machine.wrong_by_s = -HOUR_S
    if restart:
        clock = machine.start()
    machine.right_s += 60
    assert abs(clock.now_s() - machine.right_s) <= HOUR_S
    machine.wrong_by_s = 0.0
    assert clock.trusted_s() == machine.right_s


def test_at_its_first_start_it_takes_the_machines_time():
    machine = Machine()
    assert machine.start().trusted_s() == NOW_S
    assert machine.saved == [NOW_S]


def test_after_a_longer_stop_it_is_told_to_trust_once():
    machine = Machine()
    machine.start()
    machine.right_s += 3 * DAY_S
    clock = machine.start()
    assert clock.trusted_s() is None
    assert clock.now_s() == NOW_S
    assert "--trust-clock" in clock.distrust()
    assert machine.start(trust=True).trusted_s() == machine.right_s
    assert machine.start().trusted_s() == machine.right_s, "once is enough"


def test_a_synchronised_clock_is_believed_after_any_stop():
    machine = Machine()
    machine.start()
    machine.right_s, machine.synchronised = machine.right_s + YEAR_S, True
    assert machine.start().trusted_s() == machine.right_s


def test_what_could_not_be_made_durable_is_tried_again():
    machine = Machine()
    clock = machine.start()
    machine.full = True
    machine.right_s += 2 * HOUR_S
    with pytest.raises(UnavailableError):
        clock.keep()
    machine.full = False
    clock.keep()
    assert machine.saved == [NOW_S, machine.right_s]
    clock.keep()
    assert len(machine.saved) == 2


@given(st.lists(st.tuples(st.floats(0, HOUR_S), st.sampled_from([*WRONG, 0.0, HOUR_S, -HOUR_S])), max_size=30))
def test_its_time_is_never_more_than_a_day_ahead_of_the_right_one(steps):
    machine = Machine()
    clock = machine.start()
    for passed_s, by_s in steps:
        machine.right_s += passed_s
        wrong(machine, by_s)
        assert clock.now_s() - machine.right_s <= DAY_S + HOUR_S
        clock.keep()
    assert all(earlier <= later + DAY_S for earlier, later in itertools.pairwise(machine.saved))
