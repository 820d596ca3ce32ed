"""How a device spent its last week: answers why it does not train.

A device says what it does and why, once, when that changes. The week adds up for how long each of these was so, by day
(UTC). It is stored with the device's lease, which is written anyway.

Pure. What a device says is its own text, so both its length and the number of different texts are bounded.
"""

from __future__ import annotations

import msgspec

DAYS = 7
DAY_S = 86400.0
MOST_DOINGS = 12
"""Different occupations of one day that are told apart."""
MOST_CHARACTERS = 60
OTHER = "other"


class Week(msgspec.Struct, frozen=True, array_like=True):
    """The last days of a device.

    Attributes:
        doing: what it does now, in words; empty before it was heard of.
        since_s: since when, wall-clock time.
        days: day since 1970 -> occupation -> seconds, without what it does now.
    """

    doing: str = ""
    since_s: float = 0.0
    days: dict[int, dict[str, int]] = {}


_WEEK = msgspec.json.Decoder(Week)


def noted(week: bytes, doing: str, now_s: float) -> bytes:
    """A week, stored as JSON, after a device said what it does now; the same bytes if that is nothing new.

    >>> week = noted(noted(b"", "not charging", 0.0), "training", 90_000.0)
    >>> spent(week, 90_060.0)
    {0: {'not charging': 86400}, 1: {'not charging': 3600, 'training': 60}}
    """
    held, doing = _decoded(week), doing[:MOST_CHARACTERS]
    if held.doing == doing:
        return week
    return msgspec.json.encode(Week(doing, now_s, _with_now(held, now_s)))


def spent(week: bytes, now_s: float) -> dict[int, dict[str, int]]:
    """Day since 1970 -> occupation -> seconds, for the last DAYS days, up to now."""
    return _with_now(_decoded(week), now_s)


def _decoded(week: bytes) -> Week:
    return _WEEK.decode(week) if week else Week()


def _with_now(held: Week, now_s: float) -> dict[int, dict[str, int]]:
    today = int(now_s // DAY_S)
    days = {day: dict(spans) for day, spans in held.days.items() if today - DAYS < day <= today}
    if not held.doing:
        return days
    for day in range(max(int(held.since_s // DAY_S), today - DAYS + 1), today + 1):
        seconds = round(min(now_s, (day + 1) * DAY_S) - max(held.since_s, day * DAY_S))
        if seconds > 0:
            spans = days.setdefault(day, {})
            name = held.doing if held.doing in spans or len(spans) < MOST_DOINGS else OTHER
            spans[name] = spans.get(name, 0) + seconds
    return days
