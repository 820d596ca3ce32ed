"""Runs a year: carries out its plan, and observes from outside what became of devices, reports and the disk."""

from __future__ import annotations

import contextlib
import gc
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.tasks.operations import ChangeRelease, ReleaseAction
from nightjar.coordinator.tls.authority import fingerprint
from nightjar.coordinator.versions.releases import OUT, Release, is_offered_to, with_bundles
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.simulation.rounds.faults import Dice
from nightjar.simulation.rounds.logs import errors_counted
from nightjar.simulation.rounds.phone import Surroundings
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.simulation.warm_start import seeded
from nightjar.simulation.year.alerts import (
    CHECKED_EVERY_S,
    CLOCK,
    CONFIRMED_S,
    ENDS_S,
    EXPIRING,
    FOLLOW_A_WRONG_CLOCK,
    FOLLOW_AN_OUTAGE,
    NOTICE,
    NOTICED_S,
    RAISED_BY,
    SEEN_WITHIN_S,
    SETTLED_S,
    UNHEALTHY,
    WARNED_S,
    AlertBook,
)
from nightjar.simulation.year.broker import GatedBroker
from nightjar.simulation.year.coordinator import YearCoordinator
from nightjar.simulation.year.device import YearDevice, YearSurroundings
from nightjar.simulation.year.former import FleetDevice, FormerAgent
from nightjar.simulation.year.identity import CertificateOffice, DeviceCertificate
from nightjar.simulation.year.outcome import YearOutcome, YearSettings
from nightjar.simulation.year.plan import DAY_S, PlannedEvent, YearEvent, plan_year
from nightjar.simulation.year.reports import ReportBook
from nightjar.simulation.year.rules import (
    SCRAPED_EVERY_S,
    ExpectedAlerts,
    Scrapes,
    evaluated,
    judged,
    metrics_in,
)
from nightjar.simulation.year.task import DailyWindows, RecentShelf, first_year_manifest, year_task
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId, Population

POPULATION = Population("year")
HOUR_S = 3600.0
RENEWED_AGAIN_S = 86_400.0 / 2
"""The agent asks once or twice a day whether its certificate is to be renewed."""
REENROLLED_S = DAY_S
"""From a revocation to the new claim."""
VISITED_S = 7 * DAY_S
"""Until somebody visits a device that needs it, so that the rest of the year goes on."""
SILENT_S = 2 * DAY_S
"""A device that has power and was not connected for so long needs a visit."""
TRIAL_SHARE = 0.1
"""Of the devices, which try a release of the agent first: five of fifty."""
FORMER_DRAWER_S = 25 * DAY_S
"""Longest drawer of a device with an earlier agent, which does not renew a certificate that has ended."""
RETRIED_S = 600.0
"""An operator repeats what could not be done because the coordinator or its database was away."""

YearFollow = Callable[[Sequence[int]], Iterable[int]]
"""Iterates over the days; :func:`nightjar.simulation.progress.progress` also shows the progress."""


class YearWorld:
    """A fleet, a broker and a coordinator on the files of a folder."""

    def __init__(self, settings: YearSettings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        seed = settings.seed
        self.timeline = Timeline()
        self.book = ReportBook()
        self.thrown: Counter[str] = Counter()
        self.visits: dict[str, str] = {}
        self.disk: list[int] = []
        self._rng = seeded(seed, "year")
        self._release, self._rotating, self._renewed = 0, "", False
        self._refused: dict[DeviceId, float] = {}
        self._revoked: set[DeviceId] = set()
        self._clock_wrong: set[DeviceId] = set()
        self.alerts = AlertBook()
        self.scrapes = None if settings.rules is None else Scrapes(metrics_in(settings.rules))
        self.expected: list[ExpectedAlerts] = []
        self._unhealthy, self._distrusted = False, False
        self._mended_devices, self._drawers_until_s = 0, 0.0
        dice = Dice((), 1.0, seeded(seed, "dice"))
        task = year_task()
        config = CoordinatorConfig(
            task=task, population=POPULATION, seed=seed, data_dir=folder / "coordinator", rollout=TrialPolicy()
        )
        (folder / "coordinator").mkdir(parents=True)
        self.broker = GatedBroker(self.timeline, dice, POPULATION, self.book.published, self._admits)
        self.coordinator = YearCoordinator(
            config,
            self.timeline,
            self.broker,
            dice,
            partial(first_year_manifest, settings.model),
            seeded(seed, "coordinator"),
            self.book,
        )
        self.office = CertificateOffice(
            config, lambda: self.coordinator.database, self.coordinator, self.coordinator.distrust
        )
        layout = self.coordinator.manifest.layout
        codec = codec_for(task.codec.choice())
        update = seeded(seed, "update").standard_normal(layout.size).astype(np.float32)
        around = Surroundings(
            timeline=self.timeline,
            broker=self.broker,
            availability=DailyWindows(seed, settings.devices),
            dice=dice,
            shelf=RecentShelf(self.coordinator.artifacts, folder),
            coordinator=self.coordinator,
            observer=self.book,
            free_changed=lambda _by: None,
            generator=seeded(seed, "devices"),
            population=POPULATION,
            seed=seed,
        )
        shared = YearSurroundings(
            folder=folder / "devices",
            payload=codec.encode(update, layout, seeded(seed, "codec")),
            wire_id=codec.wire_id,
            rng=self._rng,
            broke=self._broke,
            mended=self._mended,
        )
        certificates = [
            DeviceCertificate(folder / "identities" / str(number), self.office) for number in range(settings.devices)
        ]
        self.devices: list[FleetDevice] = []
        former = None if settings.former is None else FormerAgent(settings.former)
        theirs = former and former.surroundings(around, self.coordinator.artifacts, folder, seeded(seed, "former"))
        for number, certificate in enumerate(certificates):
            if former is not None and number % 2:
                self.devices.append(former.device(number, theirs, shared, certificate))
            else:
                self.devices.append(YearDevice(number, around, shared, certificate))
        self._by_name = {device.device: device for device in self.devices}

    def start(self) -> None:
        """Enrol the devices, start the coordinator, and plan the events."""
        for device in self.devices:
            device.certificate.enrol(device.device)
            self.timeline.after(self._between(300.0, 600.0), partial(self._renew, device))
            self.timeline.after(self._between(0.0, DAY_S), partial(self._look_for_release, device))
        self.coordinator.start()
        self.timeline.after(HOUR_S, self._each_hour)
        self.timeline.after(CHECKED_EVERY_S, self._check_health)
        if self.scrapes is not None:
            self._scrape(self.scrapes)
        for planned in plan_year(self.settings.seed, len(self.devices), self.settings.days):
            self.timeline.at(planned.at_s, partial(self._happen, planned))

    def run(self, follow: YearFollow = iter, so_far: Callable[[], None] = lambda: None) -> None:
        """Run all days; ``so_far`` is called after each."""
        self.start()
        for day in follow(range(1, self.settings.days + 1)):
            self.timeline.run(lambda: False, day * DAY_S)
            self.disk.append(size_of(self.folder / "coordinator"))
            with contextlib.suppress(UnavailableError):  # the database is away now
                so_far()

    # What happens

    def _happen(self, planned: PlannedEvent) -> None:
        device = self.devices[planned.device] if planned.device >= 0 else None
        if device is not None and device.off and planned.event is not YearEvent.REVOCATION:
            if planned.event is not YearEvent.POWER_CUT and not device.broken:  # it is in a drawer, or starts
                self.timeline.after(DAY_S, partial(self._happen, planned))
            return
        if device is not None and device.former and planned.event is YearEvent.DAMAGED_PAGE:
            return
        self.thrown[planned.event.value] += 1
        match planned.event:
            case YearEvent.POWER_CUT if device is not None:
                device.cut_power(midway=self._rng.random() < 0.5)
            case YearEvent.DAMAGED_PAGE if device is not None:
                device.damage()
            case YearEvent.DRAWER if device is not None:
                lasts_s = min(planned.lasts_s, FORMER_DRAWER_S) if device.former else planned.lasts_s
                device.put_away(lasts_s)
                self._drawers_until_s = max(self._drawers_until_s, self.timeline.now_s + lasts_s)
                self._explain(planned, EXPIRING, lasts_s + SILENT_S, ENDS_S if lasts_s > ENDS_S else None)
            case YearEvent.WRONG_CLOCK if device is not None:
                self._set_clock(device, planned)
            case YearEvent.COORDINATOR_CLOCK:
                self._set_coordinators_clock(planned)
            case YearEvent.REVOCATION if device is not None:
                self._insist(partial(self._revoke, device))
            case YearEvent.BROKER_AWAY:
                self.broker.restart(planned.lasts_s, forget=False)
                self._explain(planned, UNHEALTHY, planned.lasts_s, SEEN_WITHIN_S)
            case YearEvent.DATABASE_AWAY:
                self.coordinator.take_database_away(planned.lasts_s)
                self._explain(planned, UNHEALTHY, planned.lasts_s, SEEN_WITHIN_S)
            case YearEvent.AGENT_RELEASE:
                self._insist(self._start_release)
            case YearEvent.AUTHORITY_RENEWAL:
                self._insist(self._rotate)
            case _:
                pass

    def _explain(self, planned: PlannedEvent, alert: str, lasts_s: float, owed_within_s: float | None) -> None:
        """Note that an event explains an alert as long as it lasts, and by when it must have been told."""
        now_s = self.timeline.now_s
        fault = f"{planned.event.value} at {now_s:.0f}"
        self.alerts.began(fault, alert, owed_by_s=None if owed_within_s is None else now_s + owed_within_s)
        self.timeline.after(lasts_s, lambda: self.alerts.ended(fault, alert, self.timeline.now_s))
        owed = frozenset() if owed_within_s is None else RAISED_BY[alert]
        follow = {UNHEALTHY: FOLLOW_AN_OUTAGE, CLOCK: FOLLOW_A_WRONG_CLOCK}
        explains = RAISED_BY[alert] | follow.get(alert, frozenset())
        self.expected.append(ExpectedAlerts(fault, now_s, now_s + lasts_s + SETTLED_S, explains, owed))

    def _insist(self, act: Callable[[], None]) -> None:
        """Let an operator do something, and again later if it was impossible."""
        try:
            act()
        except UnavailableError:
            self.timeline.after(RETRIED_S, partial(self._insist, act))

    def _set_clock(self, device: FleetDevice, planned: PlannedEvent) -> None:
        off_s = -self.coordinator.now_s() if math.isinf(planned.clock_off_s) else planned.clock_off_s
        device.set_clock(off_s)
        self._clock_wrong.add(device.device)

        def correct() -> None:
            device.correct_clock()
            self._clock_wrong.discard(device.device)

        self.timeline.after(planned.lasts_s, correct)

    def _set_coordinators_clock(self, planned: PlannedEvent) -> None:
        """Every second time its process starts again while the clock is wrong."""
        off_s = -self.coordinator.machine_s if math.isinf(planned.clock_off_s) else planned.clock_off_s
        self.coordinator.set_clock(off_s)
        self._explain(planned, CLOCK, planned.lasts_s, SEEN_WITHIN_S)
        if self.thrown[planned.event.value] % 2:
            self.timeline.after(0.5 * planned.lasts_s, self._start_again)
        self.timeline.after(planned.lasts_s, partial(self.coordinator.set_clock, 0.0))

    def _start_again(self) -> None:
        if self.coordinator.up:
            self.coordinator.kill()

    def _revoke(self, device: FleetDevice) -> None:
        self.office.revoke(device.device)
        self._revoked.add(device.device)
        self.broker.evict(device.device)
        self.timeline.after(REENROLLED_S, partial(self._insist, partial(self._enrol_again, device)))

    def _enrol_again(self, device: FleetDevice) -> None:
        device.certificate.enrol(device.device)
        self._revoked.discard(device.device)

    def _rotate(self) -> None:
        self._rotating = fingerprint(self.office.authorities()[0])
        self.office.rotate()
        self.timeline.after(DAY_S, partial(self._insist, self._retire_when_all_came_along))

    def _retire_when_all_came_along(self) -> None:
        lacking = self.office.register.signed_by(self._rotating, self.coordinator.now_s())
        if lacking or self.timeline.now_s < self._drawers_until_s + SILENT_S:
            self.timeline.after(DAY_S, partial(self._insist, self._retire_when_all_came_along))
            return
        self.office.retire()
        self._rotating, self._renewed = "", True

    def _start_release(self) -> None:
        self._release += 1
        version = f"0.{self._release + 1}.0"
        with self.coordinator.database.transaction() as tx:
            tx.save_releases(with_bundles(tx.releases(), Release(version=version, added_s=self.coordinator.now_s())))
        self.coordinator.handle(
            Operated(ChangeRelease(version, ReleaseAction.START, "monthly", share=TRIAL_SHARE), "operator")
        )

    # What devices do from time to time

    def _renew(self, device: FleetDevice) -> None:
        self.timeline.after(self._between(RENEWED_AGAIN_S, 2 * RENEWED_AGAIN_S), partial(self._renew, device))
        if device.off or not self.coordinator.up:
            return
        with contextlib.suppress(UnavailableError):  # it asks again
            device.certificate.renew_if_due(device.trusted_s)

    def _look_for_release(self, device: FleetDevice) -> None:
        self.timeline.after(DAY_S, partial(self._look_for_release, device))
        if device.off or not self.broker.connected(device.device):
            return
        try:
            with self.coordinator.database.transaction() as tx:
                out = [each for each in tx.releases() if each.rollout.stage in OUT]
        except UnavailableError:
            return
        offered = [each.version for each in out if is_offered_to(each, device.device)]
        if offered and offered[-1] != device.version:
            device.install(offered[-1])

    def _each_hour(self) -> None:
        self.timeline.after(HOUR_S, self._each_hour)
        now_s = self.timeline.now_s
        if self.coordinator.up:
            try:
                self.office.refresh()
                self.coordinator.prune()
            except UnavailableError:
                return
        self._tell()
        for device in self.devices:
            excused = device.off or device.device in self._revoked or device.device in self._clock_wrong
            if excused or self.broker.connected(device.device) or not self.broker.up:
                self._refused.pop(device.device, None)
            elif now_s - self._refused.setdefault(device.device, now_s) > SILENT_S:
                del self._refused[device.device]
                self._broke(device.number, f"not let in: {device.certificate.state(self.coordinator.now_s())}")

    def _check_health(self) -> None:
        """Look at what ``/healthz`` says, and once more if it is a trouble."""
        self.timeline.after(CHECKED_EVERY_S, self._check_health)
        with contextlib.suppress(UnavailableError):
            self.coordinator.keep_time()
        if bool(self.coordinator.distrust()) != self._distrusted:
            self._distrusted = not self._distrusted
            self._tell()
        if self.coordinator.troubles:
            self.timeline.after(CONFIRMED_S, self._confirm)
        elif self._unhealthy:
            self._unhealthy = False
            self._tell()

    def _confirm(self) -> None:
        if self.coordinator.troubles and not self._unhealthy:
            self._unhealthy = True
            self._tell()

    def _scrape(self, scrapes: Scrapes) -> None:
        """Fetch the metrics, as Prometheus would."""
        self.timeline.after(SCRAPED_EVERY_S, partial(self._scrape, scrapes))
        page = None
        with contextlib.suppress(UnavailableError):
            page = self.coordinator.metrics(self.office.register.expiring(self.coordinator.now_s(), WARNED_S))
        scrapes.add(page)

    def _tell(self) -> None:
        """Read what an operator is told now."""
        told = {UNHEALTHY} if self._unhealthy else set()
        if self._distrusted:
            told.add(CLOCK)
        with contextlib.suppress(UnavailableError):  # the pages cannot be read either
            if self.office.register.expiring(self.coordinator.now_s(), WARNED_S):
                told.add(EXPIRING)
            told |= {f"{NOTICE} {device}" for device in self.coordinator.noticed()}
        self.alerts.told(told, self.timeline.now_s)

    def _mended(self, number: int) -> None:
        alert = f"{NOTICE} {self.devices[number].device}"
        self._mended_devices += 1
        self.alerts.began(alert, alert, owed_by_s=self.timeline.now_s + NOTICED_S)

    def _broke(self, number: int, why: str) -> None:
        device = self.devices[number]
        self.visits[f"{device.device} on day {self.timeline.now_s / DAY_S:.1f}"] = why
        self.timeline.after(VISITED_S, partial(self._insist, device.visit))

    def _admits(self, name: DeviceId) -> bool:
        device = self._by_name[name]
        try:
            return device.certificate.admitted(device.wall_s, self.coordinator.machine_s)
        except UnavailableError:
            return True  # the broker decides by its files, which do not need the database

    def _between(self, low: float, high: float) -> float:
        return float(self._rng.uniform(low, high))

    def outcome(self) -> YearOutcome:
        """What the days so far came to.

        Raises:
            UnavailableError: the database does not work now.
        """
        measured = [device.written_bytes for device in self.devices if device.measured]
        former = [device.device for device in self.devices if device.former]
        with self.coordinator.database.transaction() as tx:
            versions, releases = tx.last_version_number(), tx.releases()
        return YearOutcome(
            settings=self.settings,
            book=self.book,
            thrown=self.thrown,
            visits=self.visits,
            disk=self.disk,
            written_bytes=sum(measured) / len(measured) / len(self.disk),
            restarts=self.coordinator.restarts,
            mended=self._mended_devices,
            renewed_late=sum(device.certificate.renewed_late for device in self.devices),
            former_accepted=sum(self.book.accepted_by_device[name] for name in former),
            alerts=self.alerts,
            versions=versions,
            authority_renewed=self._renewed,
            releases_current=len([each for each in releases if each.rollout.stage.value in {"current", "superseded"}]),
        )


def size_of(folder: Path) -> int:
    """Size of all files in a folder, bytes; sparse ones at their full length."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run_year(
    settings: YearSettings,
    follow: YearFollow = iter,
    parent: Path | None = None,
    so_far: Callable[[YearOutcome], None] = lambda _outcome: None,
) -> YearOutcome:
    """Run a year in a temporary folder, which is deleted afterwards.

    Args:
        settings: of the command line.
        follow: iterates over the days.
        parent: where to make the folder, by default in memory.
        so_far: called after each day with what the days so far came to.
    """
    started_s, began_s = time.monotonic(), time.process_time()

    def outcome() -> YearOutcome:
        found = world.outcome()
        found.errors, found.wall_s = errors, time.monotonic() - started_s
        found.processor_s = time.process_time() - began_s
        return found

    memory = Path("/dev/shm")  # noqa: S108 - the folder is a fresh one of our own
    if parent is None and memory.is_dir():
        parent = memory
    with tempfile.TemporaryDirectory(dir=parent, prefix="nightjar-year-") as folder, errors_counted() as errors:
        world = YearWorld(settings, Path(folder))
        gc.freeze()  # the fleet stays to the end, and would be searched for garbage again and again
        world.run(follow, lambda: so_far(outcome()))
        whole = outcome()
        if settings.rules is not None and world.scrapes is not None:
            whole.rules = judged(world.expected, evaluated(settings.rules, world.scrapes))
        world.coordinator.database.close()
        gc.unfreeze()
    return whole
