"""Who may wait for a round, and who of those who wait is drawn.

Pure: the seed and all that is known of a device are arguments. The round decides *when* to draw; when those who are not
drawn should come back is :mod:`coordinator.rounds.pace_steering`'s business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.rounds.lease import REFUSALS_ALLOWED, Lease
from wire.identifiers import DeviceId
from wire.messages import RejectionReason

_SELECTION_STREAM = 1
"""Separates the draws of the selection from other uses of the same root seed."""


def sample(pool: Sequence[DeviceId], count: int, seed: int, round_number: int) -> list[DeviceId]:
    """A uniform sample without replacement; the order in which the pool filled plays no part.

    >>> sample([DeviceId("b"), DeviceId("a")], 5, seed=7, round_number=1)
    ['a', 'b']

    Args:
        pool: device ids, in any order.
        count: at most this many are drawn.
        seed: root seed of the coordinator.
        round_number: gives each round a draw of its own.

    Returns:
        Device ids in ascending order.
    """
    candidates = sorted(pool)
    if len(candidates) <= count:
        return candidates
    generator = np.random.default_rng([seed, _SELECTION_STREAM, round_number])
    return [candidates[i] for i in sorted(generator.choice(len(candidates), count, replace=False).tolist())]


@dataclass(frozen=True, slots=True)
class Admission:
    """What a device must have, and how often it may take part.

    Attributes:
        minimum_examples: fewest stored messages.
        minimum_agent_version: ``major.minor.patch`` of the manifest.
        minimum_separation: a device whose report counts in round n may take part again in round n + this.
    """

    minimum_examples: int
    minimum_agent_version: str
    minimum_separation: int = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a device may not wait in the pool.

    Attributes:
        reason: on the wire.
        detail: for its owner.
        rounds: how many more rounds have to pass before it can be otherwise.
    """

    reason: RejectionReason
    detail: str
    rounds: int = 0


def refusal(lease: Lease, round_number: int, admission: Admission, now_s: float) -> Refusal | None:
    """Why a device that has just checked in may not wait for a round; None if it may."""
    if lease.blocked:
        return Refusal(RejectionReason.BLOCKED, lease.blocked)
    if now_s < lease.barred_until_s:
        hours = math.ceil((lease.barred_until_s - now_s) / 3600)
        detail = f"{REFUSALS_ALLOWED} of its reports could not be used; it may take part again in {hours} h"
        return Refusal(RejectionReason.BLOCKED, detail)
    if older(lease.agent_version, admission.minimum_agent_version):
        detail = f"this model needs agent {admission.minimum_agent_version} or newer, got {lease.agent_version[:32]}"
        return Refusal(RejectionReason.OUTDATED_AGENT, detail)
    if lease.examples < admission.minimum_examples:
        detail = f"{admission.minimum_examples} stored messages are needed, the device has {lease.examples}"
        return Refusal(RejectionReason.TOO_FEW_EXAMPLES, detail)
    if lease.last_round and lease.last_round != round_number:  # in its own round the round itself has the answer
        # Rounds of several tasks overlap: where it took part in a later one, the next that it could is counted.
        return _took_part_too_often(lease, max(round_number, lease.last_round + 1), admission)
    return None


def older(version: str, wanted: str) -> bool:
    """Whether one ``major.minor.patch`` is below another.

    >>> older("0.9.0", "0.10.0"), older("nonsense", "0.0.1")
    (True, True)
    """
    return _version(version) < _version(wanted)


def _took_part_too_often(lease: Lease, round_number: int, admission: Admission) -> Refusal | None:
    next_round = lease.last_round + admission.minimum_separation
    if round_number >= next_round:
        return None
    detail = f"it took part in round {lease.last_round} and may again from round {next_round} on"
    return Refusal(RejectionReason.TOOK_PART_LATELY, detail, next_round - round_number)


def _version(text: str) -> tuple[int, ...]:
    """Numbers of ``major.minor.patch``; anything else counts as older than every version."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", text)
    return tuple(int(part) for part in found.groups()) if found else ()
