"""Which cohorts may be averaged one after the other on the same weights, so that nobody is found by subtraction. Pure.

The sums of two cohorts on the same weights can be subtracted. If they differ by one device, the difference is its
update. So two cohorts are the same devices, or differ by at least the smallest cohort that the limits allow: then the
difference is one of so many updates, as a sum is. Cohorts of several tasks count together. More than two sums can be
combined in other ways; what that gives away is not bounded here.

Each version is made of its own weights, so this matters where a version was refused or taken back, and where several
tasks begin with the same one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nightjar.wire.identifiers import DeviceId

Cohort = frozenset[DeviceId]


def too_close(cohort: Cohort, former: Iterable[Cohort], least: int) -> Cohort | None:
    """A former cohort that differs from this one by fewer devices than ``least``, but by some; None if there is none.

    >>> a, b, c = (DeviceId(name) for name in "abc")
    >>> sorted(too_close(frozenset({a, b, c}), [frozenset({a, b})], 2) or ())
    ['a', 'b']
    >>> too_close(frozenset({a, b}), [frozenset({a, b}), frozenset({a, c})], 2)
    """
    return next((other for other in former if 0 < len(cohort ^ other) < least), None)


def averaged_in_place(cohort: Cohort, former: Iterable[Cohort], minimum: int) -> Cohort | None:
    """The largest former cohort within this one that is large enough to be averaged again; None if there is none."""
    within = [other for other in former if other < cohort and len(other) >= minimum]
    return max(within, key=lambda other: (len(other), sorted(other)), default=None)
