"""The coordinator of a year: the product's database, blobs, certificates and driver on real files.

A worker's average is replaced: it reads every report of the round from the database, and writes a file of the model's
size, which is sparse. So a year fits on a laptop, and is counted at its full length.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import SteadyClock
from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.ports import BlobStore, Repository
from nightjar.coordinator.records.jobs import (
    AggregationDone,
    AggregationJob,
    EvaluationDone,
    EvaluationJob,
    FiguresDone,
    FiguresJob,
    Job,
    Result,
)
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.round import TERMINAL, Phase
from nightjar.coordinator.storage.artifacts import ARTIFACTS
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.census import CensusTaker
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.private import PrivateTables
from nightjar.coordinator.storage.retention import Retention
from nightjar.coordinator.storage.tables import devices, rounds
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.coordinator.web import metrics
from nightjar.host.trusted_time import ClockReading
from nightjar.models.manifest import Manifest
from nightjar.simulation.rounds.broker import Broker
from nightjar.simulation.rounds.faults import Dice
from nightjar.simulation.rounds.process import CoordinatorProcess
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.simulation.year.reports import ReportBook
from nightjar.wire import frame
from nightjar.wire.errors import UnavailableError

GIVE_UP_AFTER_S = 600.0
"""As the product: then the process ends, and its supervisor starts another."""
YEAR_TICK_S = 60.0
"""Rounds wait for minutes, and a year has half a million of those."""
GATHER_S = 3.0
"""Messages of three seconds form one transaction, as those of a burst do; devices repeat a report after five."""
LOOK_EVERY_S = 300.0


class DatedBlobs(FileBlobs):
    """Blobs whose files have the virtual time, by which retention tells old ones."""

    def __init__(self, folder: Path, now_s: Callable[[], float]) -> None:
        super().__init__(folder)
        self._now_s = now_s

    def put(self, data: bytes) -> str:
        """See :class:`nightjar.coordinator.ports.BlobStore`."""
        name = super().put(data)
        self.date(name)
        return name

    def put_sparse(self, name: str, size_bytes: int) -> None:
        """Make a file of this size under a hash that is not its own; its bytes take no space."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size_bytes)
        self.date(name)

    def date(self, name: str) -> None:
        """Give a file the virtual time."""
        now_s = self._now_s()
        os.utime(self.path(name), (now_s, now_s))


class FaultyDatabase(Database):
    """The coordinator's database; ``touched`` is called before and after each transaction, and may raise."""

    def __init__(self, url: str, touched: Callable[[], None]) -> None:
        self._touched = touched
        touched()
        super().__init__(url)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[DatabaseView]:
        """See :class:`nightjar.coordinator.ports.Repository`."""
        self._touched()
        with super().transaction() as view:
            yield view
            self._touched()

    @contextlib.contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        """A transaction for a module that has its own tables."""
        self._touched()
        with super().connection() as connection:
            yield connection


class YearCoordinator(CoordinatorProcess):
    """A machine that runs a coordinator on the files in ``config.data_dir``."""

    def __init__(
        self,
        config: CoordinatorConfig,
        timeline: Timeline,
        broker: Broker,
        dice: Dice,
        first_manifest: Callable[[DatedBlobs], Manifest],
        generator: np.random.Generator,
        book: ReportBook,
    ) -> None:
        super().__init__(
            config,
            timeline,
            broker,
            dice,
            generator,
            give_up_after_s=GIVE_UP_AFTER_S,
            tick_s=YEAR_TICK_S,
            gather_s=GATHER_S,
        )
        self._book = book
        self._clock: SteadyClock | None
        self._away_until_s = -math.inf
        self._clock_off_s, self._clock = 0.0, None
        self._finding, self._next_look_s, self._followed = False, -math.inf, 0
        self.artifacts = DatedBlobs(config.data_dir / ARTIFACTS, self.now_s)
        self.manifest = manifest = first_manifest(self.artifacts)
        self.database = FaultyDatabase(database_url(config), self._touched)
        self._retention = Retention(self.database, self.artifacts, config.retention)
        with self.database.transaction() as tx:
            tx.add_version(
                VersionRecord(
                    version=0,
                    task=config.task.name,
                    manifest=self.artifacts.put(manifest.encode()),
                    created_s=self.now_s(),
                    rollout=Rollout(stage=Stage.CURRENT, reason="imported", since_s=self.now_s()),
                )
            )

    def now_s(self) -> float:
        """The driver's clock: the product's, which judges the machine's; before the first start the machine's."""
        return self.machine_s if self._clock is None else self._clock.now_s()

    @property
    def machine_s(self) -> float:
        """What the machine's clock says, by which its broker judges certificates."""
        return self._clock_off_s + super().now_s()

    def set_clock(self, off_s: float) -> None:
        """Set the machine's clock wrong by so much; 0 corrects it."""
        self._clock_off_s = off_s

    def distrust(self) -> str:
        """Why the machine's clock is not trusted; empty if it is."""
        return "" if self._clock is None else self._clock.distrust()

    def keep_time(self) -> None:
        """Make the newest trusted time durable, as the product does every five minutes.

        Raises:
            UnavailableError: the database does not work now.
        """
        if self._clock is not None:
            self._clock.keep()

    def _read_clock(self) -> ClockReading:
        return ClockReading(self.machine_s, self._timeline.now_s, synchronised=False)

    def _save_time(self, seconds: float) -> None:
        with self.database.transaction() as tx:
            tx.save_trusted_time(seconds)

    def noticed(self) -> list[str]:
        """The devices that say of themselves what people should know.

        Raises:
            UnavailableError: the database does not work now.
        """
        with self.database.connection() as connection:
            return list(connection.scalars(sa.select(devices.c.device).where(devices.c.notice != "")))

    def metrics(self, expiring: int) -> bytes | None:
        """The page ``/metrics``; None if it is not to be had: Prometheus takes that for a coordinator that is down."""
        if self._driver is None:
            return None
        try:
            census = CensusTaker(self.database, self, fresh_s=0.0).now()
            name = self._config.task.name
            return metrics.render(
                self.database, name, self.troubles, census, expiring, None, leads=True, distrust=self.distrust()
            )
        except UnavailableError:
            return None

    def prune(self) -> None:
        """Delete what the product's retention does not keep.

        Raises:
            UnavailableError: the database does not work now.
        """
        if not self.distrust():
            self._retention.prune(self.now_s())

    def take_database_away(self, lasts_s: float) -> None:
        """Make each transaction fail for some time."""
        self._away_until_s = self._timeline.now_s + lasts_s

    @property
    def troubles(self) -> list[str]:
        """What ``/healthz`` would say: why the service cannot do its work; empty if it can."""
        if self._driver is None:
            return ["the process does not run"]
        return [
            *([self._storing_fails] if self._storing_fails else []),
            *([] if self._connected else ["the broker is not connected"]),
        ]

    @property
    def database_answers(self) -> bool:
        """Whether the database can be used now."""
        return self._timeline.now_s >= self._away_until_s

    def _touched(self) -> None:
        self._fuse.touch()
        if not self.database_answers:
            msg = "the database does not answer"
            raise UnavailableError(msg)

    def _disk(self) -> tuple[Repository, BlobStore]:
        self.database.close()
        self.database = FaultyDatabase(database_url(self._config), self._touched)
        self._retention = Retention(self.database, self.artifacts, self._config.retention)
        with self.database.transaction() as tx:
            tx.sweep_states()
            newest_s = tx.trusted_time()
        self._clock = SteadyClock(newest_s, self._save_time, read=self._read_clock)
        return self.database, self.artifacts

    def _perform(self, job: Job) -> Result:
        match job:
            case AggregationJob():
                self._finding = True
                return self._aggregate(job)
            case FiguresJob():
                return FiguresDone(job.round, Tally())
            case EvaluationJob():
                return EvaluationDone(job.version, VersionMetrics(0.0, 0.0, 0.0))

    def _aggregate(self, job: AggregationJob) -> AggregationDone:
        private = PrivateTables(self.database)
        for each in job.reports:
            frame.decode(private.frame(job.round, each.device, each.attempt))
        manifest = Manifest.decode(self.artifacts.get(job.manifest))
        name = hashlib.sha256(f"weights after round {job.round}".encode()).hexdigest()
        self.artifacts.put_sparse(name, manifest.weights.size_bytes)
        self._book.averaged(job)
        return AggregationDone(job.round, name, manifest.weights.size_bytes, optimizer_state=None, metrics=None)

    def _look(self) -> None:
        """Tell the book of the rounds that have ended, after a job and from time to time: each look is a query."""
        if not self._finding and self._timeline.now_s < self._next_look_s:
            return
        self._finding, self._next_look_s = False, self._timeline.now_s + LOOK_EVERY_S
        query = sa.select(rounds.c.number, rounds.c.phase).where(rounds.c.number > self._followed)
        with self.database.connection() as connection:
            found = connection.execute(query.order_by(rounds.c.number)).all()
        for number, phase in found:
            if Phase(phase) not in TERMINAL:
                return  # later ones are looked at again
            self._book.over(number, Phase(phase), self._timeline.now_s)
            self._followed = number
