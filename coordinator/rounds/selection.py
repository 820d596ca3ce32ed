"""Device selection: which devices may join a round's pool, and which of the pool are drawn.

Pure: the seed and a device's lease are arguments. The round decides *when* to draw. When the other devices should come
back is decided by :mod:`nightjar.coordinator.rounds.pace_steering`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nightjar.coordinator.rounds.lease import REFUSALS_ALLOWED, Lease
from nightjar.wire.codec.codecs import BOUND_SUM, NAMES
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import RejectionReason

_SELECTION_STREAM = 1
"""Random stream of the selection, separate from other uses of the root seed."""


def sample(pool: Sequence[DeviceId], count: int, seed: int, round_number: int) -> list[DeviceId]:
    """A uniform sample without replacement; it does not depend on the order of the pool.

    >>> sample([DeviceId("b"), DeviceId("a")], 5, seed=7, round_number=1)
    ['a', 'b']

    It has at most ``count`` devices, in ascending order, and each round has its own draw.
    """
    candidates = sorted(pool)
    if len(candidates) <= count:
        return candidates
    generator = np.random.default_rng([seed, _SELECTION_STREAM, round_number])
    return [candidates[i] for i in sorted(generator.choice(len(candidates), count, replace=False).tolist())]


@dataclass(frozen=True, slots=True)
class Admission:
    """Admission limits: what a device must have, and how often it may take part.

    Attributes:
        minimum_examples: fewest examples of all kinds.
        minimum_agent_version: oldest agent that may take part, ``major.minor.patch``, from the manifest.
        minimum_separation: a device whose report counts in round n may take part again from round n plus this number.
        codec: what a device must name that can encode the task's updates; empty if every device can.
        noised: with differential privacy, the numbers of the task's noised rounds: a device whose report counts in one
            of them or later may take part again when as many as ``minimum_separation`` are noised. A round of another
            task counts as well, because a lease knows only the last.
    """

    minimum_examples: int
    minimum_agent_version: str
    minimum_separation: int = 1
    noised: tuple[int, ...] | None = None
    task_type: str = "keyboard"
    codec: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a device may not wait in the pool.

    Attributes:
        rounds: how many more rounds must pass before the device may be admitted.
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
    lacks = lacking(admission.task_type, admission.codec, lease.task_types, lease.codecs)
    if lacks is not None:
        return lacks
    if lease.examples < admission.minimum_examples:
        detail = f"{admission.minimum_examples} examples are needed, the device has {lease.examples}"
        return Refusal(RejectionReason.TOO_FEW_EXAMPLES, detail)
    if lease.last_round and lease.last_round != round_number:  # a check-in to that same round is answered by the round
        # Rounds of several tasks overlap: if it took part in a later round, count from the round after that one.
        return _took_part_too_often(lease, max(round_number, lease.last_round + 1), admission)
    return None


def lacking(task_type: str, codec: str, offered: str, codecs: str) -> Refusal | None:
    """What a device lacks for a task; None if it has the plug-ins and examples that can be used.

    >>> lacking("classification", "", "classification:labels-missing keyboard", "").detail
    'its examples cannot be used: labels-missing'

    ``codec`` is the task's if a device must name it, else empty; ``offered`` and ``codecs`` are as in a lease.
    """
    if codec and codec not in codecs.split():
        if codec == BOUND_SUM:
            return Refusal(RejectionReason.OUTDATED_AGENT, "this agent is too old for this coordinator's secure sums")
        if codec in NAMES:
            return Refusal(RejectionReason.OUTDATED_AGENT, f"this agent is too old for the codec {codec}")
        return Refusal(RejectionReason.NO_PLUGIN, f"it has no plug-in for the codec {codec}")
    problems = dict(each.partition(":")[::2] for each in offered.split())
    if task_type not in problems:
        return Refusal(RejectionReason.NO_PLUGIN, f"it has no plug-in for the task type {task_type}")
    problem = problems[task_type]
    return Refusal(RejectionReason.BAD_EXAMPLES, f"its examples cannot be used: {problem}") if problem else None


def lackers(task_type: str, codec: str, offers: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """How many devices lack what for a task.

    >>> lackers("classification", "", {("keyboard", ""): 2, ("classification:labels-missing keyboard", ""): 1})
    {'it has no plug-in for the task type classification': 2, 'its examples cannot be used: labels-missing': 1}

    ``codec`` is as in :func:`lacking`; ``offers`` has (task types, codecs) of a lease -> number of devices.
    """
    found: Counter[str] = Counter()
    for (offered, codecs), devices in offers.items():
        lacks = lacking(task_type, codec, offered, codecs)
        if lacks is not None:
            found[lacks.detail] += devices
    return dict(found)


def older(version: str, wanted: str) -> bool:
    """Whether one ``major.minor.patch`` version is older than another.

    >>> older("0.9.0", "0.10.0"), older("nonsense", "0.0.1")
    (True, True)
    """
    return _version(version) < _version(wanted)


def _took_part_too_often(lease: Lease, round_number: int, admission: Admission) -> Refusal | None:
    if admission.noised is not None:
        left = admission.minimum_separation - len([number for number in admission.noised if number >= lease.last_round])
        more = "one more round" if left == 1 else f"{left} more rounds"
        detail = f"differential privacy lets it take part again after {more}"
        return Refusal(RejectionReason.TOOK_PART_LATELY, detail, left) if left > 0 else None
    next_round = lease.last_round + admission.minimum_separation
    if round_number >= next_round:
        return None
    detail = f"it took part in round {lease.last_round} and may again from round {next_round} on"
    return Refusal(RejectionReason.TOOK_PART_LATELY, detail, next_round - round_number)


def _version(text: str) -> tuple[int, ...]:
    """The numbers of ``major.minor.patch``; a malformed version counts as older than every other."""
    match = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", text)
    return tuple(int(part) for part in match.groups()) if match else ()
