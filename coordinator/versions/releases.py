"""Agent releases on the coordinator: their rollout, the order that devices get, and the verdict on a trial. Pure.

A release goes through the same stages as a model version (:mod:`nightjar.coordinator.versions.rollout`): an operator
starts it for a share of the devices, and it becomes current if it proves no worse there. Unlike a model it cannot
return: a device that went back from a release never takes it again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.tasks.operations import ChangeRelease, ReleaseAction
from nightjar.coordinator.versions.rollout import (
    Event,
    GatePassed,
    Overtaken,
    Promoted,
    Rollout,
    Stage,
    TrialFailed,
    TrialPassed,
    Withdrawn,
    failing,
    step,
)
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.release_version import numbers
from nightjar.wire.releases import EVERYBODY, ReleaseOffer, ReleaseOrder
from nightjar.wire.shares import place_in, share_of

OUT = frozenset({Stage.CANARY, Stage.CURRENT})
"""Stages in which devices take a release."""
FEWEST_FAILURES = 2
"""Until the time of a trial is over, one device that fails may be an accident."""
MOST_CHOSEN = 1000
"""Devices that a trial by labels may have: devices fetch the list of them every hour, 17 bytes each."""
SILENT_S = 6 * 3600.0
"""A device not heard of for so long may be crashing; that others are silent too is subtracted."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A release of the agent.

    Attributes:
        bundles: file name -> sha256 of each bundle, one per platform.
        security: devices fetch it on battery and metered networks, too.
        share: share of the devices that try it as a canary.
        labels: only devices that had all of them when it was started try it.
        chosen: these devices; empty without labels.
        paused: no further device takes it for now.
        since_round: the last round when its trial began.
    """

    version: str
    bundles: dict[str, str] = {}
    security: bool = False
    added_s: float = 0.0
    rollout: Rollout = Rollout()
    share: float = 0.0
    labels: tuple[str, ...] = ()
    chosen: tuple[DeviceId, ...] = ()
    paused: bool = False
    since_round: int = 0


Releases = tuple[Release, ...]
"""All releases, the oldest version first."""


class DeviceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that run the same releases.

    Attributes:
        devices: how many there are, those that went back from the release included.
        taken_back: how many could not start, connect or train a step with it, and went back.
        silent: how many run it, and were not heard of lately.
        trained: how many had a report accepted since.
    """

    devices: int = 0
    taken_back: int = 0
    silent: int = 0
    trained: int = 0

    def failures(self) -> Tally:
        """The devices that it failed on."""
        counted = {"taken back": self.taken_back, "silent": self.silent}
        return Tally(tried=self.devices, failures={cause: count for cause, count in counted.items() if count})

    def untrained(self) -> Tally:
        """The devices that did not train."""
        return Tally(tried=self.devices, failures={"did not train": self.devices - self.trained})


class ReleaseHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that tried a release, and those that kept another.

    A device tells itself what it runs: one that a release is not offered to has no say in it, whatever it tells.
    """

    tried: DeviceGroup = DeviceGroup()
    others: DeviceGroup = DeviceGroup()


def with_bundles(releases: Releases, added: Release) -> Releases:
    """The releases with one more, or with more bundles of one."""
    held = find(releases, added.version)
    if held is not None:
        added = replace(held, bundles=held.bundles | added.bundles, security=held.security or added.security)
    return _put(releases, added)


def find(releases: Releases, version: str) -> Release | None:
    """The release with this version; None if there is none."""
    return next((each for each in releases if each.version == version), None)


def canary_of(releases: Releases) -> Release | None:
    """The release on trial, if there is one."""
    return next((each for each in releases if each.rollout.stage is Stage.CANARY), None)


def is_offered_to(release: Release, device: DeviceId) -> bool:
    """Whether a device is among those that take a release now.

    >>> is_offered_to(Release(version="0.2.0", share=0.05, rollout=Rollout(stage=Stage.CANARY)), DeviceId("phone-1"))
    False
    """
    if release.rollout.stage is Stage.CURRENT:
        return True
    return device in release.chosen if release.labels else share_of(release.version, device) < release.share


def order_of(releases: Releases) -> ReleaseOrder:
    """What devices are told.

    >>> order_of((Release(version="0.2.0", share=0.05, rollout=Rollout(stage=Stage.CANARY)),)).offers
    (ReleaseOffer(version='0.2.0', ppm=50000, places=()),)
    """
    canary, offers = canary_of(releases), []
    if canary is not None and not canary.paused:
        places = tuple(place_in(canary.version, device) for device in canary.chosen)
        offers = [ReleaseOffer(canary.version, round(EVERYBODY * canary.share), places)]
    offers += [ReleaseOffer(each.version, EVERYBODY) for each in releases if each.rollout.stage is Stage.CURRENT]
    back = {each.version: each.rollout.reason for each in releases if each.rollout.stage is Stage.ROLLED_BACK}
    return ReleaseOrder(tuple(offers), back)


def changed(
    releases: Releases,
    release: Release,
    asked: ChangeRelease,
    labelled: Sequence[DeviceId] | None,
    last_round: int,
    now_s: float,
) -> Releases | str:
    """The releases after an operator's request; or why it is impossible.

    ``release`` is one of them, the labels of whose trial are known already; ``labelled`` are the devices that have all
    these labels, None without labels.
    """
    stage = release.rollout.stage
    match asked.action:
        case ReleaseAction.START:
            chosen = tuple(each for each in labelled or () if share_of(asked.version, each) < asked.share)
            if labelled is not None and not 0 < len(chosen) <= MOST_CHOSEN:
                return (
                    f"{len(chosen)} of the {len(labelled)} devices with {', '.join(release.labels)} are in this share; "
                    f"at least one has to be, and at most {MOST_CHOSEN} can: ask for another share"
                )
            started = replace(release, share=asked.share, chosen=chosen, paused=False)
            return _started(releases, started, last_round, now_s)
        case ReleaseAction.PAUSE if stage is Stage.CANARY:
            return _put(releases, replace(release, paused=True))
        case ReleaseAction.PROMOTE if stage is Stage.CANARY:
            return moved(releases, release, Promoted(asked.reason, now_s))
        case ReleaseAction.ROLLBACK if stage in {Stage.CANARY, Stage.CURRENT}:
            return moved(releases, release, Withdrawn(asked.reason, now_s))
        case _:
            return f"release {release.version} is {stage.value}; that cannot be done with it"


def _started(releases: Releases, release: Release, last_round: int, now_s: float) -> Releases | str:
    canary, stage = canary_of(releases), release.rollout.stage
    if canary is not None and canary.version != release.version:
        return f"release {canary.version} is on trial; promote it or roll it back first"
    current = next((each.version for each in releases if each.rollout.stage is Stage.CURRENT), None)
    if current is not None and numbers(current) > numbers(release.version):
        return f"devices have release {current} and take no older one"
    if stage is Stage.CANARY:
        return _put(releases, release)
    if stage is not Stage.CANDIDATE:
        return f"release {release.version} is {stage.value}, and devices take none twice: make one with a new version"
    return moved(releases, replace(release, since_round=last_round), GatePassed(release.share, now_s))


def moved(releases: Releases, release: Release, event: Event) -> Releases:
    """The releases after one entered another stage, and left its former one to another."""
    after = replace(release, rollout=step(release.rollout, event), paused=False)
    others = [each for each in releases if each.version != release.version]
    if after.rollout.stage is Stage.CURRENT:
        for former in [each for each in others if each.rollout.stage is Stage.CURRENT]:
            retired = step(former.rollout, Overtaken(after.version, after.rollout.since_s))
            releases = _put(releases, replace(former, rollout=retired))
    elif release.rollout.stage is Stage.CURRENT:
        for former in [each for each in others if each.rollout.stage is Stage.SUPERSEDED][-1:]:
            again = Promoted(f"instead of {after.version}: {after.rollout.reason}", after.rollout.since_s)
            releases = _put(releases, replace(former, rollout=step(former.rollout, again)))
    return _put(releases, after)


def judge(
    policy: TrialPolicy, release: Release, health: ReleaseHealth, now_s: float
) -> TrialPassed | TrialFailed | None:
    """The verdict on a release on trial; None while it is too early.

    A release that fails on several devices is taken back at once, if they are too many among all that it is offered to:
    liars are quick, and until the others have tried it they would be all. It passes when enough devices have trained
    with it; after the time of a trial fewer suffice, unless more of them than of the others have not trained.
    """
    tried, others = health.tried, health.others
    overdue = now_s >= release.rollout.since_s + 3600 * policy.hours
    offered = len(release.chosen) or round(release.share * (tried.devices + others.devices))
    found = tried.failures()
    worse = failing(replace(found, tried=max(offered, found.tried)), others.failures())
    if worse and (overdue or tried.taken_back + tried.silent >= FEWEST_FAILURES):
        return TrialFailed(worse, now_s)
    if release.paused or not tried.trained or (tried.trained < policy.devices and not overdue):
        return None
    if tried.trained < policy.devices:
        lazy = failing(tried.untrained(), others.untrained())
        if lazy:
            return TrialFailed(lazy, now_s)
    return TrialPassed(f"{tried.trained} of the {tried.devices} devices with it trained, and none is the worse", now_s)


def _put(releases: Releases, release: Release) -> Releases:
    rest = (each for each in releases if each.version != release.version)
    return tuple(sorted((*rest, release), key=lambda each: numbers(each.version)))
