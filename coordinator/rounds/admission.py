"""Which task a device that has checked in is given: none, or one, and never a second beside it.

Several tasks run on one population, each with a round of its own. A device that works for one of them, or waits in its
pool, belongs to that one until it is through. Any other goes where it is allowed and needed most:

1. a selection that has begun and has not its minimum yet, so that few devices do not wait for each other in two pools;
2. the selection that lacks most of its cohort;
3. a round that has a seat to fill because somebody dropped out;
4. a selection that has its cohort together and only waits for its window;
5. else it is turned away by the round that ends first.

Variants of an experiment divide the devices among themselves: each has a *slot* of [0, 1), and a device's place there
follows from the experiment's and its own name (:func:`wire.shares.share_of`), so it is in one variant at most and stays
in it whatever other tasks come and go. Slots are given out when a task is made and never move.

Pure. Limits that hold for one task alone are :mod:`coordinator.rounds.selection`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.rounds.lease import Lease
from coordinator.rounds.round import Phase, Round, has_room
from coordinator.rounds.seats import SeatState
from coordinator.rounds.selection import Admission, Refusal, older, refusal
from wire.canary import is_canary
from wire.identifiers import DeviceId, Sha256
from wire.messages import CheckIn, RejectionReason, Work
from wire.shares import share_of

_ROUNDING = 1e-9
"""Ten variants of a tenth fill the whole, also in floats."""

Text = Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_.+-]*\Z")]


class Eligibility(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.eligibility]``: which devices may take part, beside what the model itself asks for.

    Attributes:
        minimum_agent_version: ``major.minor.patch``; empty asks for no more than the model does.
        emulated: true for emulated phones only, false for real ones only, empty for both.
    """

    minimum_agent_version: Annotated[str, Meta(max_length=32, pattern=r"^(\d+\.\d+\.\d+)?\Z")] = ""  # the model's own
    emulated: bool | None = None  # who runs emulated phones wants to see them take part


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.variant]``: the task is one of several that divide the devices among themselves.

    Attributes:
        experiment: name of the division; empty for a task that is open to all.
        share: of the devices.
    """

    experiment: Text = ""  # a task that stands alone
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0  # all of them


@dataclass(frozen=True, slots=True)
class Trial:
    """A version that a share of the devices tries.

    Attributes:
        manifest: of the version.
        share: of the devices.
    """

    manifest: Sha256
    share: float


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a task asks of a device.

    Attributes:
        kind: what it would do.
        admission: limits on taking part.
        eligibility: what it must be.
        variant: of which experiment the task is.
        slot: where its devices begin.
        trial: which devices try the version, if it is a canary.
    """

    kind: Work
    admission: Admission
    eligibility: Eligibility
    variant: Variant
    slot: float
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that a device might be given: its open round, and its gate."""

    round: Round
    gate: Requirements


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a device is given nothing.

    Attributes:
        refusal: what it is told.
        task: the one that comes nearest to having it, for reckoning when it should come back.
    """

    refusal: Refusal
    task: str


def holds(state: Round, device: DeviceId) -> bool:
    """Whether a device works for the round or waits for it."""
    seat = state.seats.get(device)
    return (seat is not None and seat.state is SeatState.WORKING) or device in state.pool


def choose(lease: Lease, offer: CheckIn, candidates: Sequence[Candidate], now_s: float) -> Round | Declined:
    """The round that a device's check-in goes to.

    Args:
        lease: what is known of the device, the check-in included.
        offer: the check-in.
        candidates: one for each task with an open round; at least one.
        now_s: wall-clock time.
    """
    # One task alone needs no search of its pool, which may be long.
    holding = [each for each in candidates if holds(each.round, lease.device)] if len(candidates) > 1 else []
    declined: Declined | None = None
    open_to: list[Round] = []
    for each in holding or candidates:
        refused = _refusal(lease, offer, each, now_s)
        if refused is None:
            open_to.append(each.round)
        elif declined is None or _sooner(refused, declined.refusal):
            declined = Declined(refused, each.round.task)
    if not open_to and declined is not None:
        return declined
    return min(open_to, key=lambda state: _urgency(state, lease.device, now_s))


def in_slot(variant: Variant, slot: float, device: DeviceId) -> bool:
    """Whether a device is one of a variant's.

    >>> in_slot(Variant(), 0.0, DeviceId("a"))
    True
    """
    if not variant.experiment:
        return True
    end = slot + variant.share
    return slot <= share_of(variant.experiment, device) < (1.0 if end > 1 - _ROUNDING else end)


def free_slot(share: float, taken: Iterable[tuple[float, float]]) -> float | None:
    """Where a new variant's devices begin; None if too few are left in one piece.

    >>> free_slot(0.5, [(0.0, 0.2), (0.7, 0.1)]), free_slot(0.6, [(0.5, 0.1)])
    (0.2, None)

    Args:
        share: of the devices, that it wants.
        taken: (begin, share) of the variants that there are.
    """
    begin = 0.0
    for other, length in sorted(taken):
        if begin + share <= other + _ROUNDING:
            return begin
        begin = max(begin, round(other + length, 9))
    return begin if begin + share <= 1 + _ROUNDING else None


def _refusal(lease: Lease, offer: CheckIn, candidate: Candidate, now_s: float) -> Refusal | None:
    gate = candidate.gate
    return refusal(lease, candidate.round.number, gate.admission, now_s) or _unfit(lease, offer, gate)


def _unfit(lease: Lease, offer: CheckIn, gate: Requirements) -> Refusal | None:
    wanted = gate.eligibility
    if gate.kind.value not in offer.kinds:
        return Refusal(RejectionReason.OUTDATED_AGENT, f"this agent cannot {gate.kind.value}")
    if wanted.minimum_agent_version and older(lease.agent_version, wanted.minimum_agent_version):
        detail = f"this task needs agent {wanted.minimum_agent_version} or newer, got {lease.agent_version[:32]}"
        return Refusal(RejectionReason.OUTDATED_AGENT, detail)
    why = ""
    if wanted.emulated is not None and lease.emulated is not wanted.emulated:
        why = f"only {'emulated' if wanted.emulated else 'real'} phones are wanted"
    elif not in_slot(gate.variant, gate.slot, lease.device):
        why = f"other devices were drawn for the experiment {gate.variant.experiment}"
    elif gate.trial is not None and not is_canary(lease.device, gate.trial.manifest, gate.trial.share):
        why = "a new version is on trial, and other devices were drawn for it"
    return Refusal(RejectionReason.NO_TASK, why) if why else None


def _sooner(refused: Refusal, other: Refusal) -> bool:
    """Whether a refusal is more temporary than another: a device that took part lately may do so again soon."""
    hopeful = RejectionReason.TOOK_PART_LATELY
    if refused.reason is not hopeful or other.reason is not hopeful:
        return refused.reason is hopeful and other.reason is not hopeful
    return refused.rounds < other.rounds


def _urgency(state: Round, device: DeviceId, now_s: float) -> tuple[int, float, int]:
    """Lower is more urgent."""
    if state.phase is Phase.SELECTION:
        waiting = len(state.pool)
        filled = waiting / state.rules.cohort
        if 0 < waiting < state.rules.minimum:
            return 0, state.rules.minimum - waiting, state.number
        return (1 if filled < 1 else 3), filled, state.number
    if has_room(state, device, now_s):
        return 2, (state.working + state.reported) / state.rules.cohort, state.number
    return 4, state.deadline_s, state.number
