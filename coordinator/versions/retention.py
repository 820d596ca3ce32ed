"""Which versions of the model keep their files, so that a year of rounds fits on a disk. Pure.

A version that is not kept loses its files: manifest, weights and transfers that no other version shares. Its row stays
for the charts as long as a round refers to it. A device that holds such a version fetches whole weights the next time.
:mod:`nightjar.coordinator.storage.retention` carries this out.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from nightjar.coordinator.learning.downlink import VERSIONS_BACK
from nightjar.coordinator.versions.retention_policy import RetentionPolicy
from nightjar.coordinator.versions.rollout import Stage

DAY_S = 86400.0
NEW_S = 600.0
"""A version is kept for ten minutes, whatever its stage: devices may be fetching it."""
IN_HAND = frozenset({Stage.CANDIDATE, Stage.CANARY, Stage.TRAINING, Stage.CURRENT})
"""Stages that are not over."""


class KeptBecause(enum.Enum):
    """Why a version keeps its files."""

    IN_HAND = "current, on trial or trained from"
    IN_USE = "used by an open round or a task"
    BY_HAND = "promoted by hand"
    BEST = "the best on held-out text"
    WAS_CURRENT = "one of the last that were current"
    RECENT = "one of the newest: smaller downloads begin there"
    NEW = "made in the last ten minutes"
    HELD = "held by a device heard from lately"


class StoredVersion(NamedTuple):
    """A version that has its files."""

    version: int
    task: str
    stage: Stage
    created_s: float  # wall-clock time
    by_hand: bool  # whether an operator promoted it


def kept_versions(
    stored: Iterable[StoredVersion],
    policy: RetentionPolicy,
    now_s: float,
    *,
    in_use: Collection[int] = (),
    best: Collection[int] = (),
    held: Collection[int] = (),
) -> dict[int, KeptBecause]:
    """The versions that keep their files, each with the first reason that applies.

    The last current versions are counted by number, because a clock that was wrong makes no older version a newer one.

    Args:
        stored: every version that has its files.
        policy: how many are kept.
        now_s: wall-clock time.
        in_use: versions that open rounds and tasks refer to.
        best: the best version of each task.
        held: versions that devices heard from within ``policy.days`` hold.

    >>> old = [StoredVersion(n, "a", Stage.SUPERSEDED, 0.0, n == 3) for n in range(100)]
    >>> now = StoredVersion(100, "a", Stage.CURRENT, 0.0, False)
    >>> sorted(kept_versions([*old, now], RetentionPolicy(versions=2), 1e6, held={7}))
    [3, 7, 92, 93, 94, 95, 96, 97, 98, 99, 100]
    """
    found = sorted(stored, reverse=True)
    reasons: dict[int, KeptBecause] = {}
    last = set(_newest(found, policy.versions, frozenset({Stage.CURRENT, Stage.SUPERSEDED})))
    recent = set(_newest(found, VERSIONS_BACK + 1, frozenset(Stage)))
    for each in found:
        number = each.version
        because = (
            (each.stage in IN_HAND, KeptBecause.IN_HAND),
            (number in in_use, KeptBecause.IN_USE),
            (each.by_hand, KeptBecause.BY_HAND),
            (number in best, KeptBecause.BEST),
            (number in last, KeptBecause.WAS_CURRENT),
            (number in recent, KeptBecause.RECENT),
            (abs(now_s - each.created_s) < NEW_S, KeptBecause.NEW),
            (number in held, KeptBecause.HELD),
        )
        reason = next((reason for holds, reason in because if holds), None)
        if reason is not None:
            reasons[number] = reason
    return reasons


def without_files(version: int) -> str:
    """Why a version cannot be used whose files were deleted.

    >>> without_files(3)[:32]
    'the files of version 3 were dele'
    """
    return (
        f"the files of version {version} were deleted, because nothing needed them any more: give one of the last "
        "that were current; 'nightjar-coordinator model list' shows which have files, retention.versions sets how many"
    )


def _newest(found: Iterable[StoredVersion], count: int, stages: frozenset[Stage]) -> Iterator[int]:
    """The newest versions of each task in these stages, so many of each; ``found`` has the newest first."""
    left: dict[str, int] = {}
    for each in found:
        if each.stage in stages and left.setdefault(each.task, count):
            left[each.task] -= 1
            yield each.version
