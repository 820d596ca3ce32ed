"""How much a device has written to its card in a day, and whether it may write more. Pure.

Cards wear out by what is written to them. Written bytes are kept by the hour, for a day back, so that any 24 hours stay
within the limit, and not only those from midnight. Hours are counted while the device is on, and by the wall clock
while it is off, if that is trusted.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

HOUR_S, HOURS = 3600.0, 25
"""A day, and the current hour, which is not whole yet."""
MEGABYTE = 1_000_000
SESSION_MB = 12.0
"""What a session of the 1.41M-parameter model writes at most: the weights, the report and the database."""

END_SHARE = 0.02
"""Share of the limit that is kept for what ends a session, and for what comes until it ends."""


class CardBudget(msgspec.Struct, frozen=True):
    """What was written.

    Attributes:
        hours: bytes in each of the last hours, the current one first; at most :data:`HOURS`.
        passed_s: seconds of the current hour that have passed.
    """

    hours: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)] = (0,)
    passed_s: float = 0.0


def written(budget: CardBudget, elapsed_s: float, written_bytes: int) -> CardBudget:
    """The budget after some seconds in which so many bytes were written.

    >>> written(CardBudget(), 10.0, 5)
    CardBudget(hours=(5,), passed_s=10.0)
    >>> written(written(CardBudget(), 10.0, 5), 7200.0, 7)
    CardBudget(hours=(7, 0, 5), passed_s=10.0)
    >>> written(written(CardBudget(), 10.0, 5), 90000.0, 0).hours.count(5)
    0
    """
    passed_s = budget.passed_s + max(0.0, elapsed_s)
    new = min(int(passed_s // HOUR_S), HOURS)
    hours = ((0,) * new + budget.hours)[:HOURS]
    return replace(budget, hours=(hours[0] + max(0, written_bytes), *hours[1:]), passed_s=passed_s % HOUR_S)


def today_mb(budget: CardBudget) -> float:
    """Megabytes written within the last day."""
    return sum(budget.hours) / MEGABYTE


def spent(budget: CardBudget, limit_mb: float, *, working: bool) -> str:
    """Why nothing more is to be written; empty if it may be.

    A session that would not fit does not begin; one in progress goes on until close to the limit.

    >>> spent(CardBudget((90_000_000,)), 100.0, working=False)
    'the card was written 90 MB within a day, of at most 100 (limits.written_mb_per_day)'
    >>> spent(CardBudget((90_000_000,)), 100.0, working=True), spent(CardBudget((80_000_000,)), 100.0, working=False)
    ('', '')
    """
    room_mb = limit_mb * END_SHARE if working else min(SESSION_MB, limit_mb / 2)
    done_mb = today_mb(budget)
    if done_mb + room_mb <= limit_mb:
        return ""
    return f"the card was written {done_mb:.0f} MB within a day, of at most {limit_mb:g} (limits.written_mb_per_day)"
