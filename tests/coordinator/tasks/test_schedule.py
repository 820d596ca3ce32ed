import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.tasks.schedule import DAY_S, HOUR_S, Schedule, wait_s, within_hours

MIDNIGHT_S = 20_000 * DAY_S
hours = st.integers(0, 24)


def at(hour: float) -> float:
    return MIDNIGHT_S + hour * HOUR_S


@pytest.mark.parametrize(("hour", "expected_h"), [(21.5, 0.5), (22, 0), (23.9, 0), (0, 0), (5.9, 0), (6, 16), (12, 10)])
def test_a_span_over_midnight(hour, expected_h):
    night = Schedule(from_hour=22, to_hour=6)
    assert wait_s(night, None, at(hour)) == pytest.approx(expected_h * HOUR_S)
    assert within_hours(night, at(hour)) == (expected_h == 0)


def test_by_default_and_with_equal_hours_it_is_always_time():
    for schedule in (Schedule(), Schedule(from_hour=7, to_hour=7), Schedule(from_hour=24, to_hour=0)):
        assert all(within_hours(schedule, at(hour)) for hour in range(24))


def test_a_pause_that_ends_outside_the_hours_lasts_until_they_begin():
    schedule = Schedule(from_hour=8, to_hour=10, pause_s=1.5 * HOUR_S)
    assert wait_s(schedule, at(9), at(9)) == pytest.approx(23 * HOUR_S)
    assert wait_s(schedule, at(8), at(8.5)) == pytest.approx(1 * HOUR_S)


def test_a_clock_that_was_set_back_does_not_stretch_a_pause():
    assert wait_s(Schedule(pause_s=60.0), at(9), at(8)) == 0


@given(hours, hours, st.floats(0, 3 * DAY_S), st.floats(0, 3 * DAY_S), st.none() | st.floats(0, 3 * DAY_S))
def test_whoever_waits_as_long_as_is_said_may_begin(from_hour, to_hour, pause_s, now_s, closed_s):
    schedule = Schedule(from_hour=from_hour, to_hour=to_hour, pause_s=pause_s)
    now_s = MIDNIGHT_S + now_s
    closed_at_s = None if closed_s is None else min(MIDNIGHT_S + closed_s, now_s)
    waiting_s = wait_s(schedule, closed_at_s, now_s)
    assert 0 <= waiting_s <= pause_s + DAY_S
    then_s = now_s + waiting_s + 1e-3  # floats of seconds since 1970
    assert wait_s(schedule, closed_at_s, then_s) == 0
    assert within_hours(schedule, then_s)
