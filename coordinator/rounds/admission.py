"""Admission: assigns a device that checks in to one task at most.

Several tasks share one population, each with its own round. A device that has a seat in a round, or waits in its pool,
stays with that task until it is done. Any other device goes to the round that admits it and needs it most:

1. a selection whose pool has some devices but not its minimum, so that few devices do not wait in two pools;
2. the selection that lacks the largest share of its cohort;
3. a round with a free seat because a device dropped out;
4. a selection whose cohort is complete and that only waits for its window;
5. otherwise the round that ends first, which turns the device away.

The variants of an experiment divide the devices among themselves. Each variant has a *slot*, a part of [0, 1), and a
device's position follows from the names of the experiment and the device (:func:`nightjar.wire.shares.share_of`). So a
device belongs to one variant at most, and stays in it when other tasks start or end. A slot is assigned when its task
is created and never moves.

If selections that cannot begin hold enough devices for one of them together, the missing devices move to that one.

Pure. :mod:`nightjar.coordinator.rounds.selection` holds the limits of a single task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from nightjar.coordinator.rounds.eligibility import Eligibility, Variant
from nightjar.coordinator.rounds.kinds import kind_of
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.rounds.selection import Admission, Refusal, older, refusal
from nightjar.wire.identifiers import DeviceId, Sha256
from nightjar.wire.messages import CheckIn, RejectionReason, Work
from nightjar.wire.shares import is_canary, share_of

_ROUNDING = 1e-9
"""Tolerance for rounding errors, so that ten variants of a tenth fill the whole."""

MOST_GATHERED = 100
"""Most waiting devices that are considered for a move: only small fleets have tasks that starve each other."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The trial of a canary version by a share of the devices; ``manifest`` is the hash of the version's manifest."""

    manifest: Sha256
    share: float


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a task requires of a device.

    Attributes:
        kind: the work that the device would do.
        slot: start of the variant's slot, 0 to 1.
        trial: the canary trial, if the version is a canary.
    """

    kind: Work
    admission: Admission
    eligibility: Eligibility
    variant: Variant
    slot: float
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that a device could be assigned to: its open round and its requirements."""

    round: Round
    requirements: Requirements


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a device is not assigned to any task.

    Attributes:
        task: the task that comes closest to admitting it; its rounds determine the retry time.
    """

    refusal: Refusal
    task: str


@dataclass(frozen=True, slots=True)
class Move:
    """A device that should wait for another task."""

    device: DeviceId
    source: str
    target: str


def is_in_round(state: Round, device: DeviceId) -> bool:
    """Whether a device is working in the round or waiting in its pool."""
    seat = state.seats.get(device)
    return (seat is not None and seat.state is SeatState.WORKING) or device in state.pool


def choose(lease: Lease, offer: CheckIn, candidates: Sequence[Candidate], now_s: float) -> Round | Declined:
    """The round that a device's check-in goes to.

    ``lease`` has the check-in applied already. There is one candidate per task with an open round, and at least one.
    """
    # With a single task there is no need to search its pool, which may be long.
    holding = [each for each in candidates if is_in_round(each.round, lease.device)] if len(candidates) > 1 else []
    declined: Declined | None = None
    open_to: list[Round] = []
    for each in holding or candidates:
        refused = _refusal(lease, each, now_s, offer.kinds)
        if refused is None:
            open_to.append(each.round)
        elif declined is None or _sooner(refused, declined.refusal):
            declined = Declined(refused, each.round.task)
    if not open_to and declined is not None:
        return declined
    return min(open_to, key=lambda state: _urgency(state, lease.device, now_s))


def moves_to_fill_a_pool(
    candidates: Sequence[Candidate], lease_of: Callable[[DeviceId], Lease | None], now_s: float
) -> list[Move]:
    """Devices to move from one selection to another, if several selections that cannot begin hold enough for one.

    A device only waits in a pool, so it need not know for which task. The selection that lacks the fewest begins.
    """
    starved = [each for each in candidates if each.round.phase is Phase.SELECTION and _lacks(each.round) > 0]
    waiting = sum(len(each.round.pool) for each in starved)
    if len(starved) < 2 or waiting > MOST_GATHERED:
        return []
    for wanted in sorted(starved, key=lambda each: (_lacks(each.round), each.round.number)):
        moves = []
        for other in starved:
            if (
                other is not wanted
                and other.requirements.kind is wanted.requirements.kind
                and waiting >= wanted.round.rules.minimum
            ):
                leases = [lease for device in other.round.pool if (lease := lease_of(device)) is not None]
                fit = [
                    each for each in leases if _refusal(each, wanted, now_s, (wanted.requirements.kind.value,)) is None
                ]
                moves += [Move(each.device, other.round.task, wanted.round.task) for each in fit]
        if len(moves) >= _lacks(wanted.round):
            return moves[: _lacks(wanted.round)]
    return []


def _lacks(state: Round) -> int:
    return state.rules.minimum - len(state.pool)


def in_slot(variant: Variant, slot: float, device: DeviceId) -> bool:
    """Whether a device belongs to a variant.

    >>> in_slot(Variant(), 0.0, DeviceId("a"))
    True
    """
    if not variant.experiment:
        return True
    end = slot + variant.share
    return slot <= share_of(variant.experiment, device) < (1.0 if end > 1 - _ROUNDING else end)


def free_slot(share: float, taken: Iterable[tuple[float, float]]) -> float | None:
    """Start of a new variant's slot; None if no gap is large enough.

    >>> free_slot(0.5, [(0.0, 0.2), (0.7, 0.1)]), free_slot(0.6, [(0.5, 0.1)])
    (0.2, None)

    ``taken`` has (begin, share) of the existing variants.
    """
    begin = 0.0
    for other, length in sorted(taken):
        if begin + share <= other + _ROUNDING:
            return begin
        begin = max(begin, round(other + length, 9))
    return begin if begin + share <= 1 + _ROUNDING else None


def _refusal(lease: Lease, candidate: Candidate, now_s: float, kinds: Collection[str]) -> Refusal | None:
    requirements = candidate.requirements
    return refusal(lease, candidate.round.number, requirements.admission, now_s) or _unfit(lease, kinds, requirements)


def _unfit(lease: Lease, kinds: Collection[str], requirements: Requirements) -> Refusal | None:
    wanted = requirements.eligibility
    if requirements.kind.value not in kinds:
        return Refusal(RejectionReason.OUTDATED_AGENT, f"this agent cannot {requirements.kind.value}")
    if wanted.minimum_agent_version and older(lease.agent_version, wanted.minimum_agent_version):
        detail = f"this task needs agent {wanted.minimum_agent_version} or newer, got {lease.agent_version[:32]}"
        return Refusal(RejectionReason.OUTDATED_AGENT, detail)
    why = unsuited(lease, wanted) or _not_drawn(lease.device, requirements)
    return Refusal(RejectionReason.NO_TASK, why) if why else None


def _not_drawn(device: DeviceId, requirements: Requirements) -> str:
    if not in_slot(requirements.variant, requirements.slot, device):
        return f"other devices were drawn for the experiment {requirements.variant.experiment}"
    if requirements.trial is not None and not is_canary(device, requirements.trial.manifest, requirements.trial.share):
        return "a new version is on trial, and other devices were drawn for it"
    return ""


def unsuited(lease: Lease, wanted: Eligibility) -> str:
    """Why a task does not want a device, by what the device is; empty if it does.

    >>> unsuited(Lease(device=DeviceId("a"), labels="porch"), Eligibility(labels=("kitchen",)))
    'only devices with the label kitchen are wanted'
    """
    if wanted.emulated is not None and lease.emulated is not wanted.emulated:
        return f"only {'emulated' if wanted.emulated else 'real'} phones are wanted"
    missing = set(wanted.labels) - set(lease.labels.split())
    return f"only devices with the label {min(missing)} are wanted" if missing else ""


def _sooner(refused: Refusal, other: Refusal) -> bool:
    """Whether a refusal is more temporary than another: a device that took part lately may do so again soon."""
    hopeful = RejectionReason.TOOK_PART_LATELY
    if refused.reason is not hopeful or other.reason is not hopeful:
        return refused.reason is hopeful and other.reason is not hopeful
    return refused.rounds < other.rounds


def _urgency(state: Round, device: DeviceId, now_s: float) -> tuple[int, float, int]:
    """Sort key of a round; the lowest is the most urgent."""
    if state.phase is Phase.SELECTION:
        waiting = len(state.pool)
        filled = waiting / state.rules.cohort
        if 0 < waiting < state.rules.minimum:
            return 0, state.rules.minimum - waiting, state.number
        return (1 if filled < 1 else 3), filled, state.number
    if kind_of(state).has_room(state, device, now_s):
        return 2, (state.working + state.reported) / state.rules.cohort, state.number
    return 4, state.deadline_s, state.number
