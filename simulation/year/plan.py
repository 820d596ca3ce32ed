"""What happens in a year, drawn from its seed before it begins. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

DAY_S = 86_400.0
MONTH_DAYS = 30.0
TENTH = 10
"""One device in so many has its page damaged, another lies in a drawer, another has a wrong clock."""
DRAWER_DAYS = 120.0
"""Longer than the life of a device's certificate, which is 90 days by default."""
AWAY_S = (600.0, 6 * 3600.0)
"""How long the broker or the database is away: from a restart of the machine to an evening."""
CLOCK_WRONG_S = (0.5 * DAY_S, 3 * DAY_S)
"""Until somebody, or a network that lets NTP through, sets the clock."""
CLOCKS_OFF_S = (
    -math.inf,  # 1970
    365 * DAY_S,
    20 * 365 * DAY_S,
    -3600.0,
    -30 * DAY_S,
    -400 * DAY_S,
)
"""Differences of wrong clocks, in turn: a board without a clock, a mistyped year, a time zone, a restored image."""
COORDINATOR_OFF_S = (-math.inf, 365 * DAY_S, 20 * 365 * DAY_S, -30 * DAY_S)
"""The same of the coordinator's clock: each at least once."""
COORDINATOR_WRONG_S = (3600.0, 6 * 3600.0)
FIRST_S = 0.5 * DAY_S
"""Nothing happens before: devices enrol and connect."""


class YearEvent(enum.Enum):
    """A kind of event."""

    POWER_CUT = "power-cut"
    """A device loses power, half of the times between two writes."""
    DAMAGED_PAGE = "damaged-page"
    """While a device is off, a page of its database is overwritten with random bytes."""
    DRAWER = "drawer"
    """A device is off for months."""
    COORDINATOR_CLOCK = "coordinator-clock"
    """The coordinator's machine has a wrong clock for hours; every second time its process starts again meanwhile."""
    WRONG_CLOCK = "wrong-clock"
    """A device starts with a wrong clock, which is corrected days later."""
    BROKER_AWAY = "broker-away"
    """The broker is away, and comes back with its sessions and retained messages."""
    DATABASE_AWAY = "database-away"
    """The coordinator's database neither reads nor writes."""
    REVOCATION = "revocation"
    """An operator revokes a device for good; a day later its owner enrols it again with a new claim."""
    AGENT_RELEASE = "agent-release"
    """An operator starts the trial of a release of the agent."""
    AUTHORITY_RENEWAL = "authority-renewal"
    """An operator rotates the certificate authority, and retires the former one when every device has come along."""


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """Something that happens at a time.

    Attributes:
        at_s: virtual time.
        device: number of the device; -1 if it concerns none.
        lasts_s: how long it lasts; 0 if it has no duration.
        clock_off_s: difference of a wrong clock; minus infinity is 1970.
    """

    at_s: float
    event: YearEvent
    device: int = -1
    lasts_s: float = 0.0
    clock_off_s: float = 0.0


def plan_year(seed: int, devices: int, days: int) -> list[PlannedEvent]:
    """The events of a year, or of fewer days, in the order of time.

    What comes monthly, weekly or once comes at least once, however few days there are.

    >>> {each.event for each in plan_year(1, 100, 10)} == set(YearEvent)
    True
    """
    return sorted(_drawn(np.random.default_rng([seed, devices, days]), devices, days), key=lambda each: each.at_s)


def _drawn(rng: np.random.Generator, devices: int, days: int) -> Iterator[PlannedEvent]:
    end_s = days * DAY_S
    for first_s, last_s in _spans(end_s, MONTH_DAYS):
        for device in range(devices):
            for at_s in rng.uniform(first_s, last_s, 1 + rng.poisson(0.2)).tolist():
                yield PlannedEvent(at_s, YearEvent.POWER_CUT, device)
        for away in (YearEvent.BROKER_AWAY, YearEvent.DATABASE_AWAY):
            lasts_s = math.exp(rng.uniform(math.log(AWAY_S[0]), math.log(AWAY_S[1])))
            yield PlannedEvent(rng.uniform(first_s, max(first_s, last_s - lasts_s)), away, lasts_s=lasts_s)
        yield PlannedEvent(first_s + 0.1 * (last_s - first_s), YearEvent.AGENT_RELEASE)
    for first_s, last_s in _spans(end_s, 7.0):
        yield PlannedEvent(rng.uniform(first_s, last_s), YearEvent.REVOCATION, int(rng.integers(devices)))
    yield PlannedEvent(0.4 * end_s, YearEvent.AUTHORITY_RENEWAL)
    many = -(-devices // TENTH)
    for device in rng.choice(devices, many, replace=False).tolist():
        yield PlannedEvent(rng.uniform(FIRST_S, 0.9 * end_s), YearEvent.DAMAGED_PAGE, device)
    drawer_s = min(DRAWER_DAYS * DAY_S, 0.4 * end_s)
    for device in rng.choice(devices, many, replace=False).tolist():
        yield PlannedEvent(rng.uniform(FIRST_S, 0.9 * end_s - drawer_s), YearEvent.DRAWER, device, drawer_s)
    for turn, device in enumerate(rng.choice(devices, many, replace=False).tolist()):
        lasts_s = min(rng.uniform(*CLOCK_WRONG_S), 0.2 * end_s)
        at_s = rng.uniform(FIRST_S, 0.9 * end_s - lasts_s)
        yield PlannedEvent(at_s, YearEvent.WRONG_CLOCK, device, lasts_s, CLOCKS_OFF_S[turn % len(CLOCKS_OFF_S)])
    for turn, (first_s, last_s) in enumerate(_spans(end_s, min(MONTH_DAYS, days / (len(COORDINATOR_OFF_S) + 1)))):
        lasts_s = min(rng.uniform(*COORDINATOR_WRONG_S), 0.5 * (last_s - first_s))
        off_s = COORDINATOR_OFF_S[turn % len(COORDINATOR_OFF_S)]
        yield PlannedEvent(rng.uniform(first_s, last_s - lasts_s), YearEvent.COORDINATOR_CLOCK, -1, lasts_s, off_s)


def _spans(end_s: float, days: float) -> Iterator[tuple[float, float]]:
    """Spans of this length from :data:`FIRST_S` to nine tenths of the time, at least one."""
    last_s = 0.95 * end_s
    first_s = min(FIRST_S, 0.1 * end_s)
    many = max(1, round((last_s - first_s) / (days * DAY_S)))
    length_s = (last_s - first_s) / many
    for number in range(many):
        yield first_s + number * length_s, first_s + (number + 1) * length_s
