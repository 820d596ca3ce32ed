"""A thread that prunes while the service runs, and measures the disk after each pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.disk_use import DiskForecast, forecast, measured, with_point
from nightjar.coordinator.storage.retention import Pruned, Retention
from nightjar.coordinator.versions.retention_policy import RetentionPolicy
from nightjar.wire.errors import NightjarError

PRUNE_EVERY_S = 300.0
"""A pass takes some milliseconds if there is nothing to delete."""
PAUSE_S = 0.05
"""Between transactions, so that reports are stored in between."""

_log = structlog.get_logger("coordinator")


class Pruner:
    """Prunes until it is closed.

    Args:
        database: the leader's.
        artifacts: the store of artifacts.
        policy: what is kept.
        data_dir: is measured.
        trusted_s: the time; None while the clock is not trusted, and then nothing is deleted.
        keep_time: makes the newest trusted time durable.
    """

    def __init__(
        self,
        database: Database,
        artifacts: FileBlobs,
        policy: RetentionPolicy,
        data_dir: Path,
        trusted_s: Callable[[], float | None],
        keep_time: Callable[[], None] = lambda: None,
    ) -> None:
        self._database, self._data_dir = database, data_dir
        self._trusted_s, self._keep_time = trusted_s, keep_time
        self._ended = threading.Event()
        self._retention = Retention(database, artifacts, policy, lambda: self._ended.wait(PAUSE_S))
        self._thread = threading.Thread(target=self._run, name="pruner", daemon=True)
        self._failed = ""
        self._disk: DiskForecast | None = None

    @property
    def disk(self) -> DiskForecast | None:
        """The newest measurement of the disk, and its growth; None before the first. Any thread may read it."""
        return self._disk

    def start(self) -> None:
        """Start the thread; the first pass is at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; waits for the open transaction."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def turn(self) -> Pruned | None:
        """Prune once, and measure the disk; None if the clock is not trusted.

        Raises:
            NightjarError: the database, the disk or the store of artifacts does not work, or a manifest is damaged.
        """
        self._keep_time()
        now_s = self._trusted_s()
        if now_s is None:
            return None
        done = self._retention.prune(now_s)
        if done.anything:
            _log.info("pruned", **msgspec.structs.asdict(done))
        self._measure(now_s)
        return done

    def _measure(self, now_s: float) -> None:
        with self._database.transaction() as view:
            before = view.disk_points()
        now = measured(self._data_dir, now_s)
        self._disk = forecast((*before, now))
        after = with_point(before, now)
        if after != before:
            with self._database.transaction() as view:
                view.save_disk_points(after)

    def _run(self) -> None:
        while True:
            try:
                self.turn()
                self._failed = ""
            except NightjarError as error:
                if str(error) != self._failed:  # said once
                    _log.warning("not_pruned", error=str(error))
                self._failed = str(error)
            if self._ended.wait(PRUNE_EVERY_S):
                return
