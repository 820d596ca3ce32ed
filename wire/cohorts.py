"""Which cohorts are too close to be read one after the other on the same weights. Pure; the rule of both sides.

Sums of two cohorts on the same weights can be subtracted. If they differ by one device, the difference is what it sent.
So two cohorts are the same devices, or differ by at least the smallest cohort that the limits allow: then the
difference is of so many devices, as a sum is. More than two sums can be combined in other ways; what that gives away is
not bounded here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Member = TypeVar("Member", bound=Hashable)


def too_close(cohort: frozenset[Member], former: Iterable[frozenset[Member]], least: int) -> frozenset[Member] | None:
    """A former cohort that differs from this one by fewer devices than ``least``, but by some; None if there is none.

    >>> sorted(too_close(frozenset("abc"), [frozenset("ab")], 2) or ())
    ['a', 'b']
    >>> too_close(frozenset("ab"), [frozenset("ab"), frozenset("ac")], 2)
    """
    return next((other for other in former if 0 < len(cohort ^ other) < least), None)
