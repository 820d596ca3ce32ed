"""A scripted day of an emulated phone: when it charges, is in use, is on Wi-Fi, and its battery level.

Pure functions: the state depends only on the script, the seed and the time, so a phone that is killed and restarted
resumes the same day. Each day shifts the borders of its segments a little and adds short interruptions (picked up,
unplugged). Both are drawn from the seed, so two phones with the same script are not synchronised.

As TOML::

    jitter_minutes = 20
    interruptions_per_hour = 0.4
    interruption_minutes = 4

    [[segments]]
    from_hour = 0.0
    charging = true
    in_use = false
    wifi = true
    battery = 0.5
"""

from __future__ import annotations

import itertools
import tomllib
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from nightjar.wire.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


class Segment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the day, from its hour until the next segment.

    Attributes:
        wifi: whether the phone is on an unmetered network.
        battery: battery level, 0 to 1, at the start of the segment; interpolated linearly until the next.
    """

    from_hour: Annotated[float, Meta(ge=0, lt=24)]
    charging: bool
    in_use: bool
    wifi: bool
    battery: Annotated[float, Meta(ge=0, le=1)]


class Day(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A day that repeats.

    Attributes:
        segments: in order, the first from hour 0.
        jitter_minutes: largest shift of a border between segments, in either direction.
        interruptions_per_hour: expected interruptions in an hour; at most one happens.
        interruption_minutes: mean length of an interruption.
    """

    segments: tuple[Segment, ...]
    jitter_minutes: Annotated[float, Meta(ge=0, le=120)] = 20.0
    interruptions_per_hour: Annotated[float, Meta(ge=0, le=1)] = 0.3
    interruption_minutes: Annotated[float, Meta(gt=0, le=60)] = 5.0

    def __post_init__(self) -> None:
        """Refuse a script that does not cover the whole day.

        Raises:
            ValueError: there are no segments, the first does not start at hour 0, or they are not in order.
        """
        hours = [segment.from_hour for segment in self.segments]
        if not hours or hours[0] != 0 or any(a >= b for a, b in itertools.pairwise(hours)):
            msg = f"expected segments in ascending order, the first from_hour 0, got {hours}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class PhoneState:
    """The phone at one moment; ``wifi`` means an unmetered network, ``battery`` is 0 to 1."""

    charging: bool
    in_use: bool
    wifi: bool
    battery: float


def _segment(from_hour: float, battery: float, what: str) -> Segment:
    return Segment(from_hour=from_hour, charging="c" in what, in_use="u" in what, wifi="w" in what, battery=battery)


DEFAULT_DAY = Day(
    segments=(
        _segment(0.0, 0.70, "cw"),  # the night on the charger
        _segment(7.0, 1.00, "uw"),  # up, and on the phone
        _segment(8.0, 0.92, "u"),  # on the way to work
        _segment(9.0, 0.85, "w"),  # on the desk
        _segment(12.0, 0.75, "u"),  # lunch
        _segment(13.0, 0.68, "cw"),  # on the desk, charging
        _segment(17.0, 0.95, "u"),  # on the way home
        _segment(18.0, 0.85, "w"),
        _segment(20.0, 0.75, "uw"),  # the evening
        _segment(22.5, 0.55, "cw"),  # back on the charger
    )
)


def day_from_toml(text: str, source: str) -> Day:
    """Read a script; ``source`` names it in error messages.

    Raises:
        ConfigError: the text is not TOML, or not a valid day.
    """
    try:
        return msgspec.convert(tomllib.loads(text), Day)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        msg = f"{source}: expected a day with [[segments]], got: {error}"
        raise ConfigError(msg) from error


def state_at(day: Day, seed: int, virtual_s: float) -> PhoneState:
    """The state of the phone at a moment of virtual time.

    >>> state_at(DEFAULT_DAY, 1, 3 * HOUR_S).charging, state_at(DEFAULT_DAY, 1, 10 * HOUR_S).charging
    (True, False)

    ``seed`` is this phone's, >= 0; ``virtual_s`` counts from midnight of day 0.
    """
    number = int(virtual_s // DAY_S)
    begins = _borders(day, seed, number)
    hour = (virtual_s - number * DAY_S) / HOUR_S
    index = bisect_right(begins, hour) - 1
    segment = day.segments[index]
    last = index + 1 == len(day.segments)
    following = day.segments[0 if last else index + 1]
    end = 24.0 if last else begins[index + 1]
    share = (hour - begins[index]) / max(end - begins[index], 1e-9)
    battery = segment.battery + share * (following.battery - segment.battery)
    picked_up, unplugged = _interruption(day, seed, virtual_s)
    return PhoneState(
        charging=segment.charging and not unplugged,
        in_use=segment.in_use or picked_up,
        wifi=segment.wifi,
        battery=float(battery),
    )


# Cached because a poll asks for the same day many times a second.
@lru_cache(maxsize=64)
def _borders(day: Day, seed: int, number: int) -> tuple[float, ...]:
    """Start hours of a day's segments: the first at midnight, the others shifted, still in order."""
    generator = _generator(seed, 0, number)
    moved = [segment.from_hour + generator.uniform(-1, 1) * day.jitter_minutes / 60 for segment in day.segments[1:]]
    return (0.0, *(min(max(hour, 0.0), 24.0) for hour in sorted(moved)))


@lru_cache(maxsize=256)
def _interruption_of_hour(day: Day, seed: int, hour: int) -> tuple[float, float, bool] | None:
    """(begin, end, unplugged) of the interruption that begins in this hour, or None; times in virtual seconds."""
    generator = _generator(seed, 1, hour)
    happens, begin, length, kind = generator.random(4)
    if happens >= day.interruptions_per_hour:
        return None
    begin_s = (hour + begin) * HOUR_S
    return begin_s, begin_s + (0.5 + length) * day.interruption_minutes * 60, bool(kind < 0.5)


def _generator(*seeds: int) -> np.random.Generator:
    # Imported late: every command of the agent loads this module, and importing numpy takes a second on a slow board.
    import numpy as np

    return np.random.default_rng(seeds)


def _interruption(day: Day, seed: int, virtual_s: float) -> tuple[bool, bool]:
    """(picked up, unplugged) at a moment. An interruption is shorter than two hours: it began at most two hours ago."""
    hour = int(virtual_s // HOUR_S)
    for begun in range(max(hour - 2, 0), hour + 1):
        match _interruption_of_hour(day, seed, begun):
            case (begin_s, end_s, unplugged) if begin_s <= virtual_s < end_s:
                return not unplugged, unplugged
            case _:
                pass
    return False, False
