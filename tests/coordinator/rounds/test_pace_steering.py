"""Pace steering, by what a population makes of the answers."""

import heapq
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.coordinator.rounds.pace_steering import (
    DAY_S,
    HOUR_S,
    HOURS,
    STEEPEST,
    Rhythm,
    Steering,
    check_in_counted,
    loads,
    opens_in_s,
    retry_after_s,
    round_timed,
    stretched_s,
)

COHORT, DEADLINE_S = 13, 60.0
FLAT = (1.0,) * HOURS


def steering(population: int, hours: tuple[float, ...] = FLAT) -> Steering:
    return Steering(population, COHORT, DEADLINE_S, shortest_s=4.0, loads=hours)


def answers(population: int, expected_s: float = 30.0, count: int = 500) -> list[float]:
    generator = np.random.default_rng(1)
    return [retry_after_s(steering(population), expected_s, 0.0, generator) for _ in range(count)]


@pytest.mark.parametrize("population", [10, 50, 130])
@pytest.mark.parametrize("expected_s", [0.0, 30.0, 7200.0])
def test_a_small_population_meets_within_a_quarter_of_the_time_that_a_round_waits(population, expected_s):
    found = answers(population, expected_s)
    assert min(found) >= max(expected_s, 4.0)
    assert max(found) - min(found) <= DEADLINE_S / 4


@pytest.mark.slow
@pytest.mark.parametrize("population", [200, 1_000, 10_000, 100_000, 1_000_000])
def test_of_a_large_population_a_few_cohorts_arrive_in_the_time_that_a_round_waits(population):
    """The tenth of them that is eligible comes again whenever it is told to."""
    generator = np.random.default_rng(2)
    eligible = population // 10
    most = min(eligible, 20_000)  # a sample stands for them
    asked, waits_s = steering(population), []
    now_s = 50 * DAY_S
    due = [now_s + retry_after_s(asked, 0.0, now_s, generator) for _ in range(most)]
    waits_s = [one - now_s for one in due]
    heapq.heapify(due)
    from_s, until_s = now_s + 4 * float(np.mean(waits_s)), now_s + 6 * float(np.mean(waits_s))
    arrivals: Counter[int] = Counter()
    while due[0] < until_s:
        at_s = heapq.heappop(due)
        if at_s >= from_s:
            arrivals[int((at_s - from_s) / DEADLINE_S)] += 1
        heapq.heappush(due, at_s + retry_after_s(asked, 0.0, at_s, generator))
    share = eligible / most
    per_window = share * sum(arrivals.values()) * DEADLINE_S / (until_s - from_s)
    assert 1.0 * COHORT < per_window < 5.0 * COHORT
    if share == 1:
        assert max(arrivals.values()) < 3 * per_window + 10, "no herd"


@given(
    st.integers(1, 10**7),
    st.integers(1, 10**4),
    st.floats(0, 1e5),
    st.floats(0, 1e9),
    st.lists(st.floats(1 / STEEPEST, STEEPEST), min_size=HOURS, max_size=HOURS),
    st.integers(0, 99),
)
@settings(deadline=None)
def test_the_answer_is_never_before_the_next_round_and_the_same_for_the_same_seed(
    population, cohort, expected_s, now_s, hours, seed
):
    asked = Steering(population, cohort, DEADLINE_S, 4.0, tuple(hours))
    wait_s = retry_after_s(asked, expected_s, now_s, np.random.default_rng(seed))
    assert wait_s == retry_after_s(asked, expected_s, now_s, np.random.default_rng(seed))
    assert wait_s >= max(expected_s, 4.0)
    assert wait_s <= max(expected_s, 4.0) + STEEPEST * DEADLINE_S * (1 + population / cohort)


def test_two_devices_that_ask_at_the_same_moment_are_not_told_the_same():
    assert len(set(answers(50, count=20))) == 20


def test_busy_hours_get_fewer_arrivals_than_quiet_ones():
    hours = (4.0,) * 6 + (0.5,) * 18
    generator = np.random.default_rng(3)
    asked = steering(1_000_000, hours)
    came = Counter(int(retry_after_s(asked, 0.0, 0.0, generator) % DAY_S // HOUR_S) for _ in range(20_000))
    busy, quiet = (np.mean([came[hour] for hour in range(*span)]) for span in ((0, 6), (6, 24)))
    assert quiet / busy == pytest.approx(8.0, rel=0.2)


@pytest.mark.long
def test_the_daily_peak_of_a_population_is_flattened():
    """Four times as many devices are awake in the evening as in the morning; check-ins are counted and steered by."""
    generator = np.random.default_rng(4)
    awake = [round(300 * (1 + 0.6 * np.sin(2 * np.pi * hour / 24))) for hour in range(24)]
    swing = max(awake) / min(awake)
    rhythm, counted = Rhythm(), Counter()
    for day in range(1, 6):
        for hour in range(24):
            start_s = day * DAY_S + hour * HOUR_S
            asked = steering(300, loads(rhythm, start_s))
            for _ in range(awake[hour]):
                at_s = start_s + HOUR_S * generator.random() * 0.2
                while at_s < start_s + HOUR_S:
                    rhythm = check_in_counted(rhythm, at_s)
                    counted[hour] += day > 3
                    at_s += retry_after_s(asked, 0.0, at_s, generator)
    assert swing == pytest.approx(4.0, rel=0.02)
    assert max(counted.values()) / min(counted.values()) < 0.65 * swing


def test_hours_are_alike_until_a_whole_day_was_counted():
    rhythm = Rhythm()
    for minute in range(600):
        rhythm = check_in_counted(rhythm, 5 * DAY_S + 60.0 * minute)
    assert loads(rhythm, 5 * DAY_S + 36_000) == FLAT
    assert loads(rhythm, 6 * DAY_S + 1) != FLAT


def test_an_old_habit_fades_and_a_clock_that_is_set_back_harms_nothing():
    rhythm = check_in_counted(Rhythm(), 10 * DAY_S)
    rhythm = check_in_counted(rhythm, 13 * DAY_S + HOUR_S)
    assert rhythm.hours[0] == pytest.approx(0.7**3)
    assert rhythm.hours[1] == 1
    assert check_in_counted(rhythm, DAY_S + HOUR_S).hours[1] == 2
    assert check_in_counted(rhythm, DAY_S).day == 13


@given(
    st.floats(0, 1e6), st.floats(0, 2e9), st.lists(st.floats(1 / STEEPEST, STEEPEST), min_size=HOURS, max_size=HOURS)
)
def test_stretching_keeps_the_order_and_the_bounds(calm_s, from_s, hours):
    stretched = stretched_s(calm_s, from_s, tuple(hours))
    assert calm_s * min(hours) - 1e-3 <= stretched <= calm_s * max(hours) + 1e-3
    assert stretched_s(calm_s + 10, from_s, tuple(hours)) > stretched
    assert stretched_s(calm_s, from_s, FLAT) == pytest.approx(calm_s, abs=1e-3)


def test_the_next_selection_is_expected_when_rounds_usually_end():
    def expected(now_s: float, usual_s: float, deadline_s: float = 600.0) -> float:
        return opens_in_s(0.0, deadline_s, 600.0, usual_s, now_s)

    assert expected(10, 100) == 90
    assert expected(10, 0) == 50, "before the first round a guess"
    assert expected(590, 100) == 10, "not after the deadline"
    assert expected(700, 100) == 0
    assert expected(-100, 100) == 200, "a clock that was set back"


def test_the_usual_length_follows_the_last_rounds():
    rhythm = round_timed(round_timed(Rhythm(), 100.0), 50.0)
    assert rhythm.usual_round_s == 75.0
