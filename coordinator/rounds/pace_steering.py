"""Pace steering: decides when a device that is not needed now should check in again.

In a *small* population all devices return together, just after the next selection is expected to open, so that enough
are present at once. A *large* population is spread over enough time that a few cohorts arrive in each selection window,
however many devices there are. The spread is longer in busy hours of the day and shorter in quiet ones. Jitter in both
cases prevents a thundering herd.

No state is kept per device: the answer depends on the size of the population, the usual length of a round, and the
check-ins counted by hour of the day (:class:`Rhythm`, stored in the repository). Pure: time and randomness are
arguments. Hours are UTC; which hours are busy is learned, not assumed.

Source: Bonawitz et al. 2019, "Towards Federated Learning at Scale", section 2.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec.structs import replace

HOUR_S, DAY_S, HOURS = 3600.0, 86400.0, 24

ELIGIBLE_SHARE = 0.1
"""Share of a population that is eligible at any moment: 9.2 % on average in a trace of 710 real phones."""
SMALL_POPULATION = 10
"""A population of up to this many cohorts is small: its eligible devices make up about one cohort at most, so all of
them are needed."""
RENDEZVOUS_SHARE = 0.1
"""Jitter of a rendezvous as a share of the waiting time: devices return together, but not in one instant."""
RENDEZVOUS_WINDOW_SHARE = 0.25
"""Maximum jitter as a share of the selection deadline: the last device arrives long before the first is sent away."""
CHECK_INS_PER_S = 1000.0
"""Check-in rate when a selection has just opened: a tenth of what one coordinator handles on two cores."""
ARRIVALS_WANTED = 2.0
"""Cohorts that should arrive from a large population within one selection deadline, so that enough always come."""
FIRST_GUESS_SHARE = 0.1
"""First estimate of a round's length, as a share of the report deadline: most rounds end long before it."""
OVERDUE_SHARE = 0.1
"""A round that is overdue is expected to take a further tenth of the time it has already taken."""
DECAY = 0.7
"""Share of the counted check-ins kept each day, so that a changed habit is learned in three days."""
STEEPEST = 4.0
"""Maximum factor by which a busy hour stretches waiting times or a quiet one shortens them: phone activity varies by a
factor of about 4 over a day, and a few days of counting are no more precise."""


class Rhythm(msgspec.Struct, frozen=True):
    """Check-ins by hour of the day, and the usual length of a round.

    Attributes:
        hours: decayed number of check-ins in each hour, UTC.
        day: day of the last decay, counted from 1970.
        since_s: when counting began, in seconds since 1970; 0 if it has not begun.
        usual_round_s: length of a round from its start to its commit, averaged over the last few; 0 before the first.
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
    return replace(rhythm, hours=tuple(hours), day=max(day, rhythm.day), since_s=rhythm.since_s or now_s)


def round_timed(rhythm: Rhythm, seconds: float) -> Rhythm:
    """The rhythm after a round that took ``seconds`` from its start to its commit."""
    usual_s = (rhythm.usual_round_s + seconds) / 2 if rhythm.usual_round_s else seconds
    return replace(rhythm, usual_round_s=usual_s)


def loads(rhythm: Rhythm, now_s: float) -> tuple[float, ...]:
    """How busy each hour of the day is, relative to the mean; all 1 until a whole day has been counted."""
    mean = sum(rhythm.hours) / HOURS
    if not rhythm.since_s or not mean or now_s - rhythm.since_s < DAY_S:
        return (1.0,) * HOURS
    return tuple(min(max(count / mean, 1 / STEEPEST), STEEPEST) for count in rhythm.hours)


@dataclass(frozen=True, slots=True)
class Steering:
    """The parameters of pace steering, apart from the time.

    Attributes:
        population: number of devices seen recently.
        shortest_s: shortest retry time.
        loads: how busy each hour of the day is, relative to the mean.
        usual_round_s: usual length of a round from its start to its commit; 0 if none has ended.
    """

    population: int
    cohort: int
    selection_deadline_s: float
    shortest_s: float
    loads: tuple[float, ...] = (1.0,) * HOURS
    usual_round_s: float = 0.0


def opens_in_s(started_at_s: float, deadline_s: float, report_deadline_s: float, usual_s: float, now_s: float) -> float:
    """Expected time until the selection after a running round opens.

    >>> opens_in_s(started_at_s=0, deadline_s=600, report_deadline_s=600, usual_s=100, now_s=30)
    70.0
    >>> opens_in_s(started_at_s=0, deadline_s=600, report_deadline_s=600, usual_s=100, now_s=200)
    20.0

    ``started_at_s`` is when the round's REPORTING began, ``deadline_s`` that of its present phase, and ``usual_s`` the
    usual length of a round from its start to its commit; 0 if none has ended. The result is at least 0.
    """
    end_s = started_at_s + (usual_s or FIRST_GUESS_SHARE * report_deadline_s)
    overdue_s = now_s + OVERDUE_SHARE * max(now_s - started_at_s, 0.0)
    return float(max(min(max(end_s, overdue_s), deadline_s) - now_s, 0.0))


def check_in_within_s(steering: Steering) -> float | None:
    """Time over which all devices should spread their check-ins when a selection opens; None if not all are needed.

    >>> check_in_within_s(Steering(population=100, cohort=100, selection_deadline_s=300, shortest_s=1))
    0.1
    """
    if steering.population > SMALL_POPULATION * steering.cohort:
        return None
    return min(steering.population / CHECK_INS_PER_S, RENDEZVOUS_WINDOW_SHARE * steering.selection_deadline_s)


def retry_after_s(steering: Steering, expected_s: float, now_s: float, generator: np.random.Generator) -> float:
    """Time until a device should check in again.

    ``expected_s`` is the expected time until the next selection that the device may take part in opens. The result is
    at least ``steering.shortest_s``.
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
    """A time span stretched in busy hours, so that evenly spread arrivals become sparser in them.

    >>> stretched_s(1800.0, 0.0, (2.0,) + (1.0,) * 23), stretched_s(3600.0, 0.0, (2.0,) + (1.0,) * 23)
    (3600.0, 5400.0)

    ``calm_s`` would be its length if all hours were equally busy; it begins at ``from_s``, in seconds since 1970.
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
