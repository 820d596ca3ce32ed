"""Which version is where, as a state machine without I/O, and the judgement on a version that a few devices try.

Theory of operation
===================

A version begins as a CANDIDATE. The gate (:mod:`coordinator.versions.quality_gate`) refuses it, lets it out to a share
of the devices as CANARY, or to all at once as CURRENT. There is at most one canary, and one current version of a line.
A canary that some devices have tried without getting worse becomes CURRENT, else it is ROLLED_BACK. What was current is
SUPERSEDED by the next, or ROLLED_BACK by an operator, who may also make any version CURRENT again::

    step(rollout, event) -> rollout

A pair (stage, event) that is not in TABLE raises IllegalEvent and changes nothing. Each stage has a reason in
words, which is kept with the version.

Getting worse is a comparison of what devices report of themselves (:mod:`coordinator.learning.device_metrics`): their
recall on their own held-out words, compared as in :mod:`coordinator.versions.quality_gate`, and how many could not run
the version at all.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.learning.device_metrics import Tally
from coordinator.versions.quality_gate import worse_on_devices
from wire.machine import Row, find_row, row, table


def _rows() -> Iterable[Row[Rollout]]:
    """Every legal pair; a pair that is not here raises IllegalEvent."""
    return (
        row(Stage.CANDIDATE, GatePassed, _let_out, Stage.CANARY, Stage.CURRENT),
        row(Stage.CANDIDATE, GateFailed, _refuse, Stage.REFUSED),
        row(Stage.CANARY, TrialPassed, _spread, Stage.CURRENT),
        row(Stage.CANARY, TrialFailed, _take_back, Stage.ROLLED_BACK),
        row(Stage.CANARY, Promoted, _spread, Stage.CURRENT),
        row(Stage.CANARY, Withdrawn, _take_back, Stage.ROLLED_BACK),
        row(Stage.CURRENT, Overtaken, _retire, Stage.SUPERSEDED),
        row(Stage.CURRENT, Withdrawn, _take_back, Stage.ROLLED_BACK),
        row(Stage.REFUSED, Promoted, _spread, Stage.CURRENT),
        row(Stage.SUPERSEDED, Promoted, _spread, Stage.CURRENT),
        row(Stage.ROLLED_BACK, Promoted, _spread, Stage.CURRENT),
    )


CERTAIN = 2.0
"""Standard errors of a share of failures: chance alone says worse one time in forty."""
FAILURE_RISE = 0.2
"""By how much the share of devices that could not run a version may be higher: phones fail now and then."""


class Stage(enum.Enum):
    """Where a version is."""

    CANDIDATE = "candidate"
    """Made, not yet judged."""
    REFUSED = "refused"
    """Rejected by the quality gate."""
    CANARY = "canary"
    """A share of the devices tries it."""
    CURRENT = "current"
    """What devices have."""
    SUPERSEDED = "superseded"
    """Was current, until a later one was."""
    ROLLED_BACK = "rolled-back"
    """Was released, and rolled back."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """Where a version is.

    Attributes:
        stage: where.
        reason: why, in words.
        since_s: wall-clock time since when.
    """

    stage: Stage = Stage.CANDIDATE
    reason: str = ""
    since_s: float = 0.0


# Events


@dataclass(frozen=True, slots=True)
class GatePassed:
    """The gate found no fault; ``share`` of the devices are to try the version first, 0 for none."""

    share: float
    now_s: float


@dataclass(frozen=True, slots=True)
class GateFailed:
    """The gate found faults."""

    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class TrialPassed:
    """The devices that tried it are none the worse."""

    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class TrialFailed:
    """The devices that tried it are the worse for it."""

    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Another version became current."""

    version: int
    now_s: float


@dataclass(frozen=True, slots=True)
class Promoted:
    """An operator wants it on all devices."""

    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """An operator wants it on no device."""

    reason: str
    now_s: float


Event = GatePassed | GateFailed | TrialPassed | TrialFailed | Overtaken | Promoted | Withdrawn


def step(state: Rollout, event: Event) -> Rollout:
    """Where a version is after an event.

    >>> step(Rollout(), GatePassed(0.0, 5.0)).stage
    <Stage.CURRENT: 'current'>

    Raises:
        IllegalEvent: the table has no row for this event in this stage.
    """
    return find_row(TABLE, state.stage, type(event), lambda: f"a {state.stage.value} version").handle(state, event)


def _let_out(_state: Rollout, event: GatePassed) -> Rollout:
    if event.share <= 0:
        return Rollout(stage=Stage.CURRENT, reason="the gate found no fault", since_s=event.now_s)
    reason = f"{100 * event.share:g} % of the devices try it"
    return Rollout(stage=Stage.CANARY, reason=reason, since_s=event.now_s)


def _refuse(_state: Rollout, event: GateFailed) -> Rollout:
    return Rollout(stage=Stage.REFUSED, reason=event.reason, since_s=event.now_s)


def _spread(_state: Rollout, event: TrialPassed | Promoted) -> Rollout:
    return Rollout(stage=Stage.CURRENT, reason=event.reason, since_s=event.now_s)


def _take_back(_state: Rollout, event: TrialFailed | Withdrawn) -> Rollout:
    return Rollout(stage=Stage.ROLLED_BACK, reason=event.reason, since_s=event.now_s)


def _retire(_state: Rollout, event: Overtaken) -> Rollout:
    return Rollout(stage=Stage.SUPERSEDED, reason=f"by version {event.version}", since_s=event.now_s)


TABLE = table(_rows())


# The judgement


class TrialPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """``[rollout]``: how many devices try a new version first, for how long, and what counts as worse.

    Attributes:
        share: of the devices that try a new version first; 0 lets it out to all at once.
        devices: that must have tried it before it is judged.
        hours: after which it is judged with fewer.
    """

    share: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # a tenth of five phones is nobody; a fleet says 0.05
    devices: Annotated[int, Meta(ge=1, le=10**6)] = 10  # fewer differ too much from each other to tell anything
    hours: Annotated[float, Meta(gt=0, le=8760)] = 24.0  # most phones are charged once a day


def judge(policy: TrialPolicy, tried: Tally, latest: Sequence[Tally], since_s: float, now_s: float) -> Event | None:
    """What the devices that try a version make of it; None while too few have said anything.

    Args:
        policy: what counts as worse.
        tried: what was found of the version on trial.
        latest: of the current version, on all devices, and of those before it.
        since_s: when the trial began.
        now_s: now.
    """
    overdue = now_s >= since_s + 3600 * policy.hours
    if tried.tried < policy.devices and not overdue:
        return None
    failing, foreseeing_less = _failing(tried, latest[0]), worse_on_devices(tried, latest, enough=1)
    if failing:
        return TrialFailed(failing, now_s)
    if foreseeing_less is not None:
        return TrialFailed(foreseeing_less[1], now_s)
    if tried.tried < policy.devices:
        reason = f"only {tried.tried} of {policy.devices} devices tried it in {policy.hours:g} h, and none is the worse"
    else:
        reason = f"{tried.tried} devices tried it and are none the worse"
    return TrialPassed(reason, now_s)


def _failing(tried: Tally, former: Tally) -> str:
    if not tried.tried:
        return ""
    share = tried.failed / tried.tried
    before = former.failed / former.tried if former.tried else 0.0
    error = math.sqrt(max(before * (1 - before), 0.05) / tried.tried)
    if share - before <= max(FAILURE_RISE, CERTAIN * error):
        return ""
    causes = ", ".join(f"{cause} {count}" for cause, count in sorted(tried.failures.items()))
    return (
        f"{tried.failed} of {tried.tried} devices could not run it ({causes}); before it {100 * before:.0f} % could not"
    )
