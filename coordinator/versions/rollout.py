"""The rollout of a version, as a state machine without I/O, and the verdicts on new versions and canary trials.

Theory of operation
===================

A version begins as a CANDIDATE. The gate (:mod:`nightjar.coordinator.versions.quality_gate`) refuses it, or lets it go
on in one of three ways: to a share of the devices as CANARY; where devices measure their keyboards, to the devices of
the next rounds as TRAINING; else to all devices at once as CURRENT. A line has one current version, which is announced,
and at most one canary and one in training. Rounds go on from the version in training, or else from the current one.

A canary or a version in training becomes CURRENT if the devices that measure it get no worse, and ROLLED_BACK if they
clearly do. Between the two, a canary becomes the version in training, and that one stays until the next version takes
its place: then it is SKIPPED. A current version is SUPERSEDED by the next one, or ROLLED_BACK. An operator may also
make any version CURRENT again::

    step(rollout, event) -> rollout

A pair (stage, event) that is not in TABLE raises IllegalEvent and changes nothing. The reason for each stage is stored
with the version, in words.

The verdict on a trial compares on-device metrics (:mod:`nightjar.coordinator.learning.device_metrics`): the keystrokes
that the devices' keyboards save (:mod:`nightjar.coordinator.versions.announcement`), or else the recall on their own
held-out words, compared as in :mod:`nightjar.coordinator.versions.quality_gate`; and how many devices could not run the
version.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.versions.announcement import (
    LEAST_DEVICES,
    KeyboardOutcome,
    KeyboardVerdict,
    saves_less,
    verdict,
)
from nightjar.coordinator.versions.quality_gate import COLLAPSE, MARGIN, Names, VersionMetrics, faults, worse_on_devices
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.wire.machine import Row, find_row, row, table


def _rows() -> Iterable[Row[Rollout]]:
    """The legal (stage, event) pairs; any other pair raises IllegalEvent."""
    return (
        row(Stage.CANDIDATE, GatePassed, _let_out, Stage.CANARY, Stage.TRAINING, Stage.CURRENT),
        row(Stage.CANDIDATE, GateFailed, _refuse, Stage.REFUSED),
        row(Stage.CANARY, TrialPassed, _spread, Stage.CURRENT),
        row(Stage.CANARY, TrialUndecided, _train_from, Stage.TRAINING),
        row(Stage.CANARY, TrialFailed, _take_back, Stage.ROLLED_BACK),
        row(Stage.CANARY, Promoted, _spread, Stage.CURRENT),
        row(Stage.CANARY, Withdrawn, _take_back, Stage.ROLLED_BACK),
        row(Stage.TRAINING, TrialPassed, _spread, Stage.CURRENT),
        row(Stage.TRAINING, TrialUndecided, _train_from, Stage.TRAINING),
        row(Stage.TRAINING, TrialFailed, _take_back, Stage.ROLLED_BACK),
        row(Stage.TRAINING, Overtaken, _skip, Stage.SKIPPED),
        row(Stage.TRAINING, Promoted, _spread, Stage.CURRENT),
        row(Stage.TRAINING, Withdrawn, _take_back, Stage.ROLLED_BACK),
        row(Stage.CURRENT, Overtaken, _retire, Stage.SUPERSEDED),
        row(Stage.CURRENT, Withdrawn, _take_back, Stage.ROLLED_BACK),
        row(Stage.REFUSED, Promoted, _spread, Stage.CURRENT),
        row(Stage.SKIPPED, Promoted, _spread, Stage.CURRENT),
        row(Stage.SUPERSEDED, Promoted, _spread, Stage.CURRENT),
        row(Stage.ROLLED_BACK, Promoted, _spread, Stage.CURRENT),
    )


CERTAIN = 2.0
"""Required difference in failure share, in standard errors: chance alone exceeds it one time in forty."""
FAILURE_RISE = 0.2
"""Allowed rise in the share of devices that could not run a version: phones fail now and then."""


class Stage(enum.Enum):
    """The rollout stage of a version."""

    CANDIDATE = "candidate"
    """Made, not yet judged."""
    REFUSED = "refused"
    """Rejected by the quality gate."""
    CANARY = "canary"
    """A share of the devices tries it."""
    TRAINING = "training"
    """Rounds train from it; keyboards do not get it before devices have measured it."""
    SKIPPED = "skipped"
    """Rounds trained from it until another version took its place; it was never announced."""
    CURRENT = "current"
    """Announced: released to all devices."""
    SUPERSEDED = "superseded"
    """Was current until another version replaced it."""
    ROLLED_BACK = "rolled-back"
    """Was released and then rolled back."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The rollout state of a version.

    Attributes:
        reason: why the version is in this stage, in words.
        since_s: wall-clock time at which it entered the stage.
    """

    stage: Stage = Stage.CANDIDATE
    reason: str = ""
    since_s: float = 0.0


# Events


@dataclass(frozen=True)
class _WithReason:
    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class GatePassed:
    """The gate found no fault; ``share`` of the devices try the version first.

    With a share of 0, a version that devices will have ``measured`` after the next round goes into training, and
    another is released to all at once.
    """

    share: float
    now_s: float
    measured: bool = False


class GateFailed(_WithReason):
    """The gate found faults."""


class TrialPassed(_WithReason):
    """The version was not worse on the devices that tried or measured it."""


class TrialUndecided(_WithReason):
    """The version was worse on the devices that measured it, but perhaps by chance, or by little."""


class TrialFailed(_WithReason):
    """The version was worse on the devices that tried or measured it."""


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Another version took its place; ``found`` is what devices had found of it, in words."""

    version: int | str
    now_s: float
    found: str = ""


class Promoted(_WithReason):
    """The version goes to all devices, promoted by an operator or in place of one that was rolled back."""


class Withdrawn(_WithReason):
    """The version goes to no device any more, withdrawn by an operator or because it is worse."""


Event = GatePassed | GateFailed | TrialPassed | TrialUndecided | TrialFailed | Overtaken | Promoted | Withdrawn


def step(state: Rollout, event: Event) -> Rollout:
    """The rollout state after an event.

    >>> step(Rollout(), GatePassed(0.0, 5.0)).stage
    <Stage.CURRENT: 'current'>

    Raises:
        IllegalEvent: the table has no row for this event in this stage.
    """
    return find_row(TABLE, state.stage, type(event), lambda: f"a {state.stage.value} version").handle(state, event)


def _let_out(_state: Rollout, event: GatePassed) -> Rollout:
    if event.share > 0:
        reason = f"{100 * event.share:g} % of the devices try it"
        return Rollout(stage=Stage.CANARY, reason=reason, since_s=event.now_s)
    if event.measured:
        reason = "rounds train from it; keyboards do not get it before devices have measured it"
        return Rollout(stage=Stage.TRAINING, reason=reason, since_s=event.now_s)
    return Rollout(stage=Stage.CURRENT, reason="the gate found no fault", since_s=event.now_s)


def _refuse(_state: Rollout, event: GateFailed) -> Rollout:
    return Rollout(stage=Stage.REFUSED, reason=event.reason, since_s=event.now_s)


def _train_from(_state: Rollout, event: TrialUndecided) -> Rollout:
    reason = f"rounds train from it, and keyboards do not get it: {event.reason}"
    return Rollout(stage=Stage.TRAINING, reason=reason, since_s=event.now_s)


def _spread(_state: Rollout, event: TrialPassed | Promoted) -> Rollout:
    return Rollout(stage=Stage.CURRENT, reason=event.reason, since_s=event.now_s)


def _take_back(_state: Rollout, event: TrialFailed | Withdrawn) -> Rollout:
    return Rollout(stage=Stage.ROLLED_BACK, reason=event.reason, since_s=event.now_s)


def _retire(_state: Rollout, event: Overtaken) -> Rollout:
    return Rollout(stage=Stage.SUPERSEDED, reason=f"by version {event.version}", since_s=event.now_s)


def _skip(_state: Rollout, event: Overtaken) -> Rollout:
    found = f": {event.found}" if event.found else ""
    reason = f"by version {event.version}, without having been announced{found}"
    return Rollout(stage=Stage.SKIPPED, reason=reason, since_s=event.now_s)


TABLE = table(_rows())


# The verdicts


def judge_new(
    policy: TrialPolicy,
    new: VersionMetrics | None,
    line: Iterable[VersionMetrics | None],
    *,
    base: int | None,
    head: int,
    devices: int,
    own_text: bool,
    now_s: float,
    measured: bool = False,
    names: Names = ("top-1", "top-3"),
) -> GatePassed | GateFailed:
    """The verdict of the gate on a new version.

    ``line`` has the metrics of the versions that it is compared with. ``base`` is the version that it was trained from,
    and ``head`` the one that rounds go on from. ``devices`` measured the base in this round; about as many will measure
    the new one, with their keyboards if ``measured``. ``own_text`` tells whether the held-out text was typed by people
    of the fleet.
    """
    text_decides = own_text and not measured and devices < policy.devices
    found = faults(new, line, MARGIN if text_decides else COLLAPSE, names)
    if base != head:
        found = (f"it was trained from version {base}, and rounds go on from version {head}", *found)
    return GateFailed("; ".join(found), now_s) if found else GatePassed(policy.share, now_s, measured)


def cannot_roll_back(version: int, stage: Stage, *, named: bool, replaceable: bool) -> str:
    """Why an operator cannot roll back a version; empty if it is possible.

    >>> cannot_roll_back(3, Stage.REFUSED, named=False, replaceable=True)
    'version 3 is refused; only one that devices get, try or train from can be taken back'

    ``named`` tells whether the operator named a version to replace it, and ``replaceable`` whether there is one of its
    task that can.
    """
    if (stage, Withdrawn) not in TABLE:
        return f"version {version} is {stage.value}; only one that devices get, try or train from can be taken back"
    if stage is Stage.CURRENT and not replaceable:
        return f"there is no version that devices could get instead of {version}; give another"
    if stage is not Stage.CURRENT and named:
        return f"version {version} is {stage.value}: its devices go back to the current version"
    return ""


def judge(
    policy: TrialPolicy,
    tried: Tally,
    latest: Sequence[Tally],
    since_s: float,
    now_s: float,
    names: Names = ("top-1", "top-3"),
    version: int = -1,
    announced: int = -1,
) -> Event | None:
    """The verdict of a canary trial; None while too few devices have tried the version.

    ``latest`` has the metrics of the current version, on all devices, and of the versions before it. The trial began at
    ``since_s``. ``version`` is the number of the version, and ``announced`` that of the current one.
    """
    overdue = now_s >= since_s + 3600 * policy.hours
    if tried.tried < policy.devices and not overdue:
        return None
    failed = failing(tried, latest[0])
    if failed:
        return TrialFailed(failed, now_s)
    keyboards = verdict(tried, version, announced, LEAST_DEVICES)
    if keyboards.outcome is not KeyboardOutcome.UNMEASURED:
        return decided(keyboards, now_s)
    saving_less = saves_less(tried, latest[0])
    if saving_less:
        return TrialFailed(saving_less, now_s)
    foreseeing_less = worse_on_devices(tried, latest, 1, names)
    if foreseeing_less is not None:
        return TrialFailed(foreseeing_less[1], now_s)
    if tried.tried < policy.devices:
        reason = f"only {tried.tried} of {policy.devices} devices tried it in {policy.hours:g} h, and none is the worse"
    else:
        reason = f"{tried.tried} devices tried it and are none the worse"
    return TrialPassed(reason, now_s)


def decided(found: KeyboardVerdict, now_s: float) -> TrialPassed | TrialUndecided | TrialFailed | None:
    """The event that a verdict of keyboards is for a version; None if too few devices measured it."""
    match found.outcome:
        case KeyboardOutcome.UNMEASURED:
            return None
        case KeyboardOutcome.BETTER:
            return TrialPassed(found.reason, now_s)
        case KeyboardOutcome.UNDECIDED:
            return TrialUndecided(found.reason, now_s)
        case KeyboardOutcome.WORSE:
            return TrialFailed(found.reason, now_s)


def failing(tried: Tally, former: Tally) -> str:
    """Why a version fails on more devices than the one before, beyond chance; empty if it does not."""
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
