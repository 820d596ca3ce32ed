"""What a cohort that is too close to a former one is made of instead (:mod:`nightjar.wire.cohorts`). Pure.

Cohorts of several tasks count together. Each version is made of its own weights, so this matters where a version was
refused or taken back, where it is evaluated in several rounds, and where several tasks begin with the same one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nightjar.wire.identifiers import DeviceId

Cohort = frozenset[DeviceId]


def read_in_place(cohort: Cohort, former: Iterable[Cohort], minimum: int) -> Cohort | None:
    """The largest former cohort within this one that is large enough to be read again; None if there is none."""
    within = [other for other in former if other < cohort and len(other) >= minimum]
    return max(within, key=lambda other: (len(other), sorted(other)), default=None)
