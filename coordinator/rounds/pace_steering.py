"""Pace steering: when a device that is not needed now should check in again.

A *small* population is called to a rendezvous: everybody comes just after the next selection is expected to open, so
that enough are there together. A *large* one is spread over so long a time that a few cohorts arrive in each selection
window, however many devices there are; in the busy hours of the day over a longer time, in the quiet ones over a
shorter. In both the moment is drawn with jitter, so there is no herd.

Nothing is kept per device: the answer depends on the population's size, on how long rounds take, and on how many
check-ins came in which hour of the day (:class:`Rhythm`, which the repository remembers). Pure; time and randomness are
arguments. Hours are UTC: which ones are busy is learned and not assumed.

Source: Bonawitz et al. 2019, "Towards Federated Learning at Scale", section 2.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

HOUR_S, DAY_S, HOURS = 3600.0, 86400.0, 24

ELIGIBLE_SHARE = 0.1
"""Of a population, at a moment: 9.2 % on average in a trace of 710 real phones."""
SMALL_POPULATION = 10
"""Up to this many times the cohort a population is small: those of it that are eligible are about a cohort at most, and
all of them are needed."""
RENDEZVOUS_SHARE = 0.1
"""Jitter of a rendezvous as a share of the waiting time: not in one instant, and still together."""
RENDEZVOUS_WINDOW_SHARE = 0.25
"""And of the selection deadline, so that the last one comes long before the first one is sent away."""
CHECK_INS_PER_S = 1000.0
"""Of devices that come because a selection has just opened: a tenth of what one coordinator takes on two cores."""
ARRIVALS_WANTED = 2.0
"""Cohorts that a large population should send into one selection deadline at least, so that it is never too few."""
FIRST_GUESS_SHARE = 0.1
"""Of the report deadline: how long a round takes before one has ended. Most end much sooner than their deadline."""
OVERDUE_SHARE = 0.1
"""A round that takes longer than usual will take about a tenth longer still."""
DECAY = 0.7
"""Of the counted check-ins each day: a habit that changed is learned in three days."""
STEEPEST = 4.0
"""A busy hour stretches waiting times at most so much, and a quiet one shortens them: phones have a day's swing of
about 4, and a few days of counting are no surer than that."""


class Rhythm(msgspec.Struct, frozen=True):
    """Check-ins by hour of the day, and the usual length of a round.

    Attributes:
        hours: decayed number of check-ins in each hour, UTC.
        day: number of the day since 1970 that they were last decayed on.
        since_s: when counting began; 0 before.
        usual_round_s: from its start to its commit, averaged over the last few rounds; 0 before the first.
    """

    hours: tuple[float, ...] = (0.0,) * HOURS
    day: int = 0
    since_s: float = 0.0
    usual_round_s: float = 0.0


def check_in_counted(rhythm: Rhythm, now_s: float) -> Rhythm:
    """The rhythm after one more check-in.

    >>> check_in_counted(Rhythm(), now_s=2 * 3600.0).hours[:4]
    (0.0, 0.0, 1.0, 0.0)
    """
    day, hour = int(now_s // DAY_S), int(now_s % DAY_S // HOUR_S)
    hours = list(rhythm.hours)
    if day > rhythm.day:
        fading = DECAY ** min(day - rhythm.day, 1000)
        hours = [fading * count for count in hours]
    hours[hour] += 1
    return Rhythm(tuple(hours), max(day, rhythm.day), rhythm.since_s or now_s, rhythm.usual_round_s)


def round_timed(rhythm: Rhythm, seconds: float) -> Rhythm:
    """The rhythm after a round that took so long from its start to its commit."""
    usual_s = (rhythm.usual_round_s + seconds) / 2 if rhythm.usual_round_s else seconds
    return Rhythm(rhythm.hours, rhythm.day, rhythm.since_s, usual_s)


def loads(rhythm: Rhythm, now_s: float) -> tuple[float, ...]:
    """How busy each hour of the day is: 1 is the mean. All 1 until a whole day was counted."""
    mean = sum(rhythm.hours) / HOURS
    if not rhythm.since_s or not mean or now_s - rhythm.since_s < DAY_S:
        return (1.0,) * HOURS
    return tuple(min(max(count / mean, 1 / STEEPEST), STEEPEST) for count in rhythm.hours)


@dataclass(frozen=True, slots=True)
class Steering:
    """What the answer depends on beside the moment.

    Attributes:
        population: devices seen lately.
        cohort: devices that a round selects.
        selection_deadline_s: how long a round waits for devices.
        shortest_s: no device is called back sooner.
        loads: how busy each hour of the day is.
    """

    population: int
    cohort: int
    selection_deadline_s: float
    shortest_s: float
    loads: tuple[float, ...] = (1.0,) * HOURS


def opens_in_s(started_at_s: float, deadline_s: float, report_deadline_s: float, usual_s: float, now_s: float) -> float:
    """When the selection after a round that is under way may be expected to open.

    >>> opens_in_s(started_at_s=0, deadline_s=600, report_deadline_s=600, usual_s=100, now_s=30)
    70.0
    >>> opens_in_s(started_at_s=0, deadline_s=600, report_deadline_s=600, usual_s=100, now_s=200)
    20.0

    Args:
        started_at_s: when the round's REPORTING began.
        deadline_s: of the phase that it is in.
        report_deadline_s: longest time of REPORTING.
        usual_s: of a round from its start to its commit; 0 if none has ended.
        now_s: wall-clock time.

    Returns:
        Seconds from now; not below 0.
    """
    end_s = started_at_s + (usual_s or FIRST_GUESS_SHARE * report_deadline_s)
    overdue_s = now_s + OVERDUE_SHARE * max(now_s - started_at_s, 0.0)
    return float(max(min(max(end_s, overdue_s), deadline_s) - now_s, 0.0))


def check_in_within_s(steering: Steering) -> float | None:
    """How long all devices together should take to check in when a selection opens; None if not all are needed.

    >>> check_in_within_s(Steering(population=100, cohort=100, selection_deadline_s=300, shortest_s=1))
    0.1
    """
    if steering.population > SMALL_POPULATION * steering.cohort:
        return None
    return min(steering.population / CHECK_INS_PER_S, RENDEZVOUS_WINDOW_SHARE * steering.selection_deadline_s)


def retry_after_s(steering: Steering, expected_s: float, now_s: float, generator: np.random.Generator) -> float:
    """When a device should check in again.

    Args:
        steering: as above.
        expected_s: time until the next selection that it may take part in is expected to open.
        now_s: wall-clock time; the hours of the day are counted from it.
        generator: source of the jitter.

    Returns:
        Seconds from now, at least ``steering.shortest_s``.
    """
    earliest_s = max(expected_s, steering.shortest_s)
    drawn = float(generator.random())
    if steering.population <= SMALL_POPULATION * steering.cohort:
        most_s = RENDEZVOUS_WINDOW_SHARE * steering.selection_deadline_s
        return earliest_s + drawn * min(RENDEZVOUS_SHARE * earliest_s, most_s)
    eligible = ELIGIBLE_SHARE * steering.population
    spread_s = steering.selection_deadline_s * eligible / (ARRIVALS_WANTED * steering.cohort)
    return earliest_s + stretched_s(drawn * spread_s, now_s + earliest_s, steering.loads)


def stretched_s(calm_s: float, from_s: float, loads: tuple[float, ...]) -> float:
    """A span of time in which busy hours count for less: what is spread evenly before comes thinner in them after.

    >>> stretched_s(1800.0, 0.0, (2.0,) + (1.0,) * 23), stretched_s(3600.0, 0.0, (2.0,) + (1.0,) * 23)
    (3600.0, 5400.0)

    Args:
        calm_s: the span if all hours were alike.
        from_s: when it begins, seconds since 1970.
        loads: how busy each hour of the day is, positive.
    """
    daily_s = sum(HOUR_S / load for load in loads)
    days, left_s = divmod(calm_s, daily_s)
    passed_s, at_s = days * DAY_S, from_s
    while True:
        load = loads[int(at_s % DAY_S // HOUR_S)]
        rest_of_hour_s = HOUR_S - at_s % HOUR_S
        if left_s <= rest_of_hour_s / load:
            return float(passed_s + left_s * load)
        left_s -= rest_of_hour_s / load
        passed_s += rest_of_hour_s
        at_s += rest_of_hour_s
