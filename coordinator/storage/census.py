"""The census counts all devices, the more rarely the more a count costs; the recorder keeps a sample every minute.

Everything else on the pages costs the same for ten devices and for a million; totals over the population need a full
count. So all callers share one count, which is repeated only when it is stale. If counting takes long, it runs in the
background, and callers get the last count with its age.

The samples are for the pages' plots of device activity and traffic. They are written in parallel to the driver, in a
table that the driver never touches; one that cannot be written only leaves a gap in a plot.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from nightjar.coordinator.ports import Clock
from nightjar.coordinator.storage.apart import lost_before
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fleet import APART, Census, Sample
from nightjar.coordinator.versions.releases import OUT
from nightjar.wire.errors import UnavailableError

FRESH_S = 1.0
"""How long a count stays fresh at least; a person does not notice a change sooner."""
REST_SHARE = 50
"""A count that took one second stays fresh for fifty, so counting uses at most a fiftieth of one core."""
PATIENCE_S = 0.03
"""A caller waits for a new count only if the last one took no longer than this."""
SMALL = 2000
"""So many devices are counted in milliseconds, so their count is never older than the round beside it."""
LATELY_S = 7 * 86400.0
"""Devices not heard from for longer are left out of the versions that devices hold."""
VERSIONS_NAMED = 20
"""Newest versions that are counted separately; all others count as older."""
PERIOD_S = 60.0
KEEP_S = 7 * 86400.0
"""How long samples are kept: a week shows the rhythm of a population; its ten thousand samples take two megabytes."""
OLDER = "older"

_log = structlog.get_logger("coordinator")


class CensusTaker:
    """Takes and caches the census. Thread-safe."""

    def __init__(
        self, database: Database, clock: Clock, fresh_s: float = FRESH_S, distrust: Callable[[], str] = str
    ) -> None:
        self._database = database
        self._distrust = distrust  # why the clock is not trusted; empty if it is
        self._clock = clock
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._latest: Census | None = None
        self._counted_at_s = self._took_s = self._costs_s = 0.0
        self._counting = False

    def now(self) -> Census:
        """The last count, or a new one if the last is stale and counting is quick.

        Raises:
            UnavailableError: the database cannot be read now.
        """
        with self._lock:
            latest = self._latest
            if latest is None:
                return self._count()
            # A few devices that took long to count were counted while the machine stalled.
            small = latest.known <= SMALL
            rest_s = 0.0 if small else REST_SHARE * self._costs_s
            if time.monotonic() - self._counted_at_s < max(self._fresh_s, rest_s):
                return latest
            if small or self._took_s <= PATIENCE_S:
                return self._count()
            if not self._counting:
                self._counting = True
                threading.Thread(target=self._count_aside, name="census", daemon=True).start()
            return latest

    def _count_aside(self) -> None:
        try:
            self._count()
        except UnavailableError as error:
            _log.warning("census_failed", error=str(error))
        finally:
            self._counting = False

    def _count(self) -> Census:
        begun_s, now_s = time.monotonic(), self._clock.now_s()
        with self._database.transaction() as view:
            lost_before_s = lost_before(now_s, self._distrust())
            states = view.device_states(lost_before_s)
            holders = view.holders(now_s - LATELY_S)
            offers = view.device_offers(lost_before_s)
            newest = {record.version for record in view.versions(VERSIONS_NAMED)}
            fleet = view.fleet(lost_before_s)
            out = [each for each in view.releases() if each.rollout.stage in OUT]
            tried = {each.rollout.stage: view.release_health(each, now_s).tried for each in out}
        known, apart = fleet.get("", 0), {why: fleet[why] for why in APART if why in fleet}
        held: dict[int | None, int] = {}
        for reported, devices in holders.items():
            version = reported if reported in newest else None
            held[version] = held.get(version, 0) + devices
        self._latest = Census(
            counted_s=now_s, known=known, states=states, holders=held, offers=offers, releases=tried, apart=apart
        )
        self._counted_at_s = time.monotonic()
        took_s = self._counted_at_s - begun_s
        # A single slow count after a quick one means that the machine stalled; it must not lengthen the pause.
        self._took_s, self._costs_s = took_s, min(took_s, self._took_s)
        return self._latest


class Recorder:
    """A thread that records samples until it is closed."""

    def __init__(self, database: Database, census: CensusTaker, clock: Clock) -> None:
        self._database = database
        self._census = census
        self._clock = clock
        self._ended = threading.Event()
        self._before: tuple[float, float] = (time.monotonic(), time.process_time())
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Start the thread; it records the first sample at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; waits for a sample that is being written."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def record(self) -> None:
        """Record one sample.

        Raises:
            UnavailableError: the database cannot be read or written now.
        """
        since_s, cpu_s = self._before
        self._before = time.monotonic(), time.process_time()
        passed_s = self._before[0] - since_s
        busy = (self._before[1] - cpu_s) / passed_s if passed_s > 0 else 0.0
        census, now_s = self._census.now(), self._clock.now_s()
        held = {OLDER if version is None else str(version): many for version, many in census.holders.items()}
        with self._database.transaction() as view:
            counted = view.counters()
            sample = Sample(
                at_s=now_s,
                groups=census.groups,
                holders=held,
                reports=view.accepted_reports(),
                bytes_up=counted.get("bytes_up", 0),
                bytes_down=counted.get("bytes_down", 0),
                busy=busy,
            )
            view.add_sample(sample, KEEP_S)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.record()
            except UnavailableError as error:
                _log.warning("sample_not_kept", error=str(error))
            self._ended.wait(PERIOD_S)
