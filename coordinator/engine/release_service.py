"""Carries out what operators and trials decide about releases (:mod:`nightjar.coordinator.versions.releases`)."""

from __future__ import annotations

from msgspec.structs import replace

from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.tasks.operations import ChangeRelease, OperationRefused, ReleaseAction
from nightjar.coordinator.versions import releases as pure
from nightjar.coordinator.versions.releases import Releases
from nightjar.coordinator.versions.rollout import Stage, TrialFailed
from nightjar.coordinator.versions.trial_policy import TrialPolicy

JUDGED_EVERY_S = 60.0
"""Pause between verdicts: each reads the devices heard of since the trial began."""
_WHO = "the trial"


class ReleaseService:
    """Moves releases between stages."""

    def __init__(self, policy: TrialPolicy) -> None:
        self._policy = policy
        self._next_s = 0.0

    def tick(self, unit: UnitOfWork) -> None:
        """Judge the release on trial, if there is one and it is time."""
        if self._next_s - JUDGED_EVERY_S <= unit.now_s < self._next_s:  # else due, or the clock was set back
            return
        self._next_s = unit.now_s + JUDGED_EVERY_S
        releases = unit.tx.releases()
        canary = pure.canary_of(releases)
        if canary is None:
            return
        event = pure.judge(self._policy, canary, unit.tx.release_health(canary, unit.now_s), unit.now_s)
        if event is not None:
            action = ReleaseAction.ROLLBACK if isinstance(event, TrialFailed) else ReleaseAction.PROMOTE
            _keep(unit, _WHO, canary.version, action, releases, pure.moved(releases, canary, event))

    def change(self, asked: ChangeRelease, who: str, unit: UnitOfWork) -> bool | OperationRefused:
        """Carry out an operator's request; False if nothing had to change."""
        releases = unit.tx.releases()
        release = pure.find(releases, asked.version)
        if release is None:
            return OperationRefused(f"there is no release {asked.version}; 'release add' adds one")
        labelled = None
        if asked.action is ReleaseAction.START:
            release = release if asked.labels is None else replace(release, labels=asked.labels)
            labelled = unit.tx.devices_with(release.labels) if release.labels else None
        after = pure.changed(releases, release, asked, labelled, unit.tx.last_round_number(), unit.now_s)
        if isinstance(after, str):
            return OperationRefused(after)
        if after == releases:
            return False
        _keep(unit, who, asked.version, asked.action, releases, after)
        return True


def _keep(unit: UnitOfWork, who: str, version: str, action: ReleaseAction, before: Releases, after: Releases) -> None:
    unit.tx.save_releases(after)
    now = _said(after, version)
    unit.audit(who, f"{action.value}-release", version, _said(before, version), now)
    unit.log("release_changed", version=version, by=who, now=now)


def _said(releases: Releases, version: str) -> str:
    release = pure.find(releases, version)
    if release is None:
        return ""
    stage = release.rollout.stage
    words = [stage.value, *(["paused"] if release.paused else [])]
    if stage is Stage.CANARY:
        words.append(f"{100 * release.share:g} % of {' '.join(release.labels) or 'all devices'}")
    return f"{', '.join(words)}: {release.rollout.reason}"[:200]
