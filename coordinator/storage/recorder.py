"""The recorder: stores a sample of the fleet every minute, for the pages' plots of device activity and traffic.

It writes in parallel to the driver, in tables that the driver never touches. A sample that cannot be written only
leaves a gap in a plot.
"""

from __future__ import annotations

import threading
import time

import structlog

from coordinator.ports import Clock
from coordinator.storage.census import CensusTaker
from coordinator.storage.database import Database
from coordinator.storage.fleet import Census, Sample
from wire.errors import UnavailableError

PERIOD_S = 60.0
KEEP_S = 7 * 86400.0
"""How long samples are kept: a week shows the rhythm of a population; its ten thousand samples take two megabytes."""
OLDER = "older"

_log = structlog.get_logger("coordinator")


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
        with self._database.transaction() as view:
            counted = view.counters()
            up, down = counted.get("bytes_up", 0), counted.get("bytes_down", 0)
            view.add_sample(sample_of(census, now_s, view.accepted_reports(), up, down, busy), KEEP_S)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.record()
            except UnavailableError as error:
                _log.warning("sample_not_kept", error=str(error))
            self._ended.wait(PERIOD_S)


def sample_of(census: Census, at_s: float, reports: int, bytes_up: int, bytes_down: int, busy: float) -> Sample:
    """Build a sample.

    Args:
        census: count of devices at that moment.
        at_s: wall-clock time.
        reports: reports accepted so far.
        bytes_up: bytes received from devices so far.
        bytes_down: bytes sent to devices so far.
        busy: share of one core that this process used since the previous sample.
    """
    return Sample(
        at_s=at_s,
        groups=census.groups,
        holders={OLDER if version is None else str(version): many for version, many in census.holders.items()},
        reports=reports,
        bytes_up=bytes_up,
        bytes_down=bytes_down,
        busy=busy,
    )
