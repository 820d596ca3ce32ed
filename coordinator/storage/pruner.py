"""A thread that prunes while the service runs, and measures the disk after each pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.disk_use import DiskForecast, DiskPoint, forecast_of, with_point
from nightjar.coordinator.storage.reserve import keep_reserve
from nightjar.coordinator.storage.retention import Pruned, Retention
from nightjar.coordinator.versions.retention_policy import RetentionPolicy
from nightjar.wire.errors import NightjarError, UnavailableError

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
        self._failed, self._no_reserve = "", ""
        self._disk: DiskForecast | None = None

    @property
    def disk(self) -> DiskForecast | None:
        """The newest measurement of the disk, and its growth; None before the first. Any thread may read it."""
        return self._disk

    @property
    def trouble(self) -> str:
        """Why nothing was deleted at the last pass; empty if it was looked for. Any thread may read it."""
        return self._failed

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
        try:
            done = None if now_s is None else self._retention.prune(now_s)
        finally:
            self._measure(now_s)  # also when nothing can be deleted: that is when a disk fills
            self._keep_reserve()
        if done is not None and done.anything:
            _log.info("pruned", **msgspec.structs.asdict(done))
        return done

    def _keep_reserve(self) -> None:
        try:
            keep_reserve(self._data_dir)
            self._no_reserve = ""
        except UnavailableError as error:  # such as a quota: pruning works without it
            if str(error) != self._no_reserve:
                _log.warning("no_reserve", error=str(error))
            self._no_reserve = str(error)

    def _measure(self, now_s: float | None) -> None:
        before: tuple[DiskPoint, ...] = ()
        try:
            with self._database.transaction() as view:
                before = view.disk_points()
        finally:  # without the database, how much is free is known all the same
            self._disk = found = forecast_of(self._data_dir, before, now_s)
        if now_s is None:
            return
        after = with_point(before, DiskPoint(now_s, found.used_bytes, found.free_bytes))
        if after != before:
            with self._database.transaction() as view:
                view.save_disk_points(after)

    def try_turn(self) -> None:
        """Do :meth:`turn`; what goes wrong is logged once, and kept as :attr:`trouble` until a pass succeeds."""
        try:
            self.turn()
            self._failed = ""
        except NightjarError as error:
            if str(error) != self._failed:
                _log.warning("not_pruned", error=str(error))
            self._failed = str(error)

    def _run(self) -> None:
        while True:
            self.try_turn()
            if self._ended.wait(PRUNE_EVERY_S):
                return
