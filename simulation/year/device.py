"""A device of a year: the agent's driver on the product's database file, which power cuts leave as they find it."""

from __future__ import annotations

import contextlib
import math
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from nightjar.edge_agent import __version__
from nightjar.edge_agent.core.lifecycle import Ineligible
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.core.stored import Caps, Change, NewReport, PendingDropout, Remembered
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.link.uplink import AgentIdentity
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import DatingClock, ExampleStore
from nightjar.edge_agent.session.task import Produced, SessionTask
from nightjar.edge_agent.shell.database import Database as Store
from nightjar.edge_agent.shell.mending import agree, mend
from nightjar.host.put_away import in_short
from nightjar.host.system_clock import TrustedClock
from nightjar.host.trusted_time import ClockReading
from nightjar.models.manifest import KEYBOARD
from nightjar.models.source import Source
from nightjar.simulation.rounds.faults import Fuse
from nightjar.simulation.rounds.model import STEPS
from nightjar.simulation.rounds.phone import Phone, Surroundings
from nightjar.simulation.rounds.ports import ALL_HOLD
from nightjar.simulation.year.identity import DeviceCertificate
from nightjar.wire.errors import NightjarError, UnavailableError
from nightjar.wire.frame import Report, encode_report, publishes
from nightjar.wire.identifiers import Sha256
from nightjar.wire.messages import DropoutCause

STORE = "agent.db"
CAPS = Caps(messages=20_000, total_bytes=8 << 20, age_s=365 * 86_400.0)
MESSAGES = ("see you at the station", "I am late again", "what is for dinner tonight")
TOUCHES = 4
"""A power cut between two writes happens within this many accesses to the store."""
TORN_BYTES = 700
"""Half of a page that was being written to the log when the power failed."""
PAGE_BYTES = 4096
NEVER_S = 1e12
SHORT_S = 60.0
"""From the end of the process or the power cut to the next start."""
MOST_CRASHES = 5
"""A supervisor gives up after some starts that end in an error; then somebody has to visit the device."""
MEASURED_EACH = 10
"""What is written is measured on one device of so many: asking the system for it takes time."""
EXAMPLES = 100
IO = Path("/proc/self/io")
"""Counts what this process writes (Linux)."""


@dataclass(frozen=True, slots=True)
class YearClock:
    """Implements :class:`nightjar.edge_agent.ports.DatingClock`; the product's rule decides when the time is certain.

    ``trusted`` is that rule; its newest trusted time survives power cuts.
    """

    monotonic_s: Callable[[], float]
    wall_s: Callable[[], float]
    trusted: TrustedClock

    def certain_s(self) -> float | None:
        """The time that what is typed is dated with; None while it is not certain."""
        return self.trusted.now_s()


class CardStore:
    """The device's database on its card: a :class:`nightjar.edge_agent.ports.Journal` and an ``ExampleStore``.

    ``touched`` is called before and after each change, and may raise; ``produced`` is called with every report that is
    stored.
    """

    def __init__(
        self, folder: Path, clock: DatingClock, touched: Callable[[], None], produced: Callable[[NewReport], None]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._clock = folder / STORE, clock
        self._touched, self._produced = touched, produced
        self._store: Store | None = None
        self.damaged = False  # since the last start
        self.notice = ""
        """What the device says of the files that it has put away, which it does only at a start."""

    def open(self) -> Store:
        """The open database.

        Raises:
            ConfigError: it cannot be opened.
        """
        if self._store is None:
            self._store = Store(self.path, CAPS, self._clock)
            self._store.add_once("first messages", MESSAGES)
        return self._store

    def start(self, trusted_s: float | None) -> str:
        """Put the database in order before anybody opens it, as the product's agent does; returns what was wrong.

        Raises:
            UnavailableError: it could not be mended.
        """
        why = mend(self.path, trusted_s)
        if self.path.exists():
            agree(self.path)
        self.notice = in_short(self.path.parent)
        return why

    def lose_power(self, rng: np.random.Generator) -> None:
        """Close the file as a power cut does: its log stays, with a page that was half written behind it."""
        store, self._store, self.damaged = self._store, None, False
        if store is None:
            return
        log = self.path.with_name(f"{STORE}-wal")
        kept = log.read_bytes() if log.exists() else b""
        whole = self.path.read_bytes()
        store.close()  # this copies the log into the file, and deletes it
        self.path.write_bytes(whole)
        if kept:
            log.write_bytes(kept + rng.bytes(TORN_BYTES))

    def damage_page(self, rng: np.random.Generator) -> None:
        """Overwrite a page of the file with random bytes, while the device is off."""
        store = Store(self.path, CAPS, self._clock)
        store.close()  # the log is empty now: no newer copy of the page is in it
        pages = self.path.stat().st_size // PAGE_BYTES
        with self.path.open("r+b") as file:
            file.seek(PAGE_BYTES * int(rng.integers(pages)))
            file.write(rng.bytes(PAGE_BYTES))

    @contextlib.contextmanager
    def _used(self) -> Iterator[Store]:
        """The open database; notes whether an error says that its file is damaged."""
        try:
            yield self.open()
        except UnavailableError as error:
            self.damaged = self.damaged or isinstance(error.__cause__, sqlite3.DatabaseError)
            raise

    # Journal

    def load(self) -> Remembered:
        """See :class:`nightjar.edge_agent.ports.Journal`."""
        with self._used() as store:
            return store.load()

    def ledger(self) -> list[LedgerEntry]:
        """See :class:`nightjar.edge_agent.ports.Journal`."""
        with self._used() as store:
            return store.ledger()

    def commit(self, change: Change) -> None:
        """See :class:`nightjar.edge_agent.ports.Journal`."""
        self._touched()
        with self._used() as store:
            store.commit(change)
        if change.report is not None:
            self._produced(change.report)
        self._touched()

    def frame(self) -> bytes:
        """See :class:`nightjar.edge_agent.ports.Outgoing`."""
        with self._used() as store:
            return store.frame()

    def pending_dropouts(self) -> list[PendingDropout]:
        """See :class:`nightjar.edge_agent.ports.Outgoing`."""
        with self._used() as store:
            return store.pending_dropouts()

    def dropout_sent(self, number: int) -> None:
        """See :class:`nightjar.edge_agent.ports.Outgoing`."""
        with self._used() as store:
            store.dropout_sent(number)

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be sent."""
        return self.load().parcel is None and not self.pending_dropouts()

    # Examples

    def count(self) -> int:
        """See :class:`nightjar.edge_agent.ports.ExampleStore`."""
        with self._used() as store:
            return store.count()

    def source(self) -> Source:
        """See :class:`nightjar.edge_agent.ports.ExampleStore`."""
        with self._used() as store:
            return store.source()

    def task_types(self) -> tuple[str, ...]:
        """See :class:`nightjar.edge_agent.ports.ExampleStore`."""
        return (KEYBOARD,)


@dataclass(frozen=True, slots=True)
class YearSurroundings:
    """What the devices of a year share beyond :class:`nightjar.simulation.rounds.phone.Surroundings`.

    Attributes:
        payload: the update of every report, encoded once by the task's codec.
        wire_id: of the codec.
        broke: called with the number of a device that does not start, and why: somebody has to visit it.
        mended: called with the number of a device that went on without a damaged file.
    """

    folder: Path
    payload: bytes
    wire_id: int
    rng: np.random.Generator
    broke: Callable[[int, str], None]
    mended: Callable[[int], None]


class YearDevice(Phone):
    """A device whose agent has the product's database; training is replaced by an update that is ready."""

    _journal: CardStore
    former = False

    def __init__(
        self, number: int, around: Surroundings, year: YearSurroundings, certificate: DeviceCertificate
    ) -> None:
        self._year = year
        self.certificate = certificate
        self.version = __version__
        self.written_bytes = 0
        self.in_drawer = self.broken = False
        self._crashes = 0
        self._synchronised = True
        self._trusted = TrustedClock(None, lambda _newest_s: None, self._read_clock)
        self.measured = number % MEASURED_EACH == 0
        super().__init__(number, around)

    @property
    def off(self) -> bool:
        """Whether it has no power."""
        return self._off

    @property
    def wall_s(self) -> float:
        """What its clock shows."""
        return self._wall_s()

    @property
    def trusted_s(self) -> float | None:
        """What its clock shows, if the product's rule trusts it."""
        return None if self._off else self._trusted.now_s()

    def _read_clock(self) -> ClockReading:
        return ClockReading(self._wall_s(), self._around.timeline.now_s, self._synchronised)

    # What happens to it

    def cut_power(self, *, midway: bool) -> None:
        """Cut its power now, or midway between two of its next writes."""
        if midway:
            self._fuse = Fuse(int(self._year.rng.integers(1, TOUCHES + 1)))
        else:
            self._lose_power()

    def put_away(self, off_s: float) -> None:
        """Cut its power, and put it away for a time."""
        self.in_drawer = True
        self._lose_power(off_s)

    def damage(self) -> None:
        """Cut its power, and damage a page of its database."""
        self._lose_power(SHORT_S)
        self._journal.damage_page(self._year.rng)

    def set_clock(self, off_s: float) -> None:
        """Let it start again with a clock that is wrong by so much."""
        self._lose_power(SHORT_S)
        self._clock_offset_s, self._synchronised = off_s, False

    def correct_clock(self) -> None:
        """Correct its clock while it runs."""
        self._clock_offset_s, self._synchronised = 0.0, True

    def install(self, version: str) -> None:
        """Replace its agent, which restarts."""
        self.version = version
        self._lose_power(SHORT_S)

    def visit(self) -> None:
        """Put in a new card, with a new claim."""
        self.broken, self._crashes = False, 0
        shutil.rmtree(self._journal.path.parent)
        self._journal = self._open_journal()
        self.certificate.enrol(self.device)
        self._boot()

    # What the phone leaves to its kind

    def _open_journal(self) -> CardStore:
        folder = self._year.folder / self.device
        clock = YearClock(self._monotonic_s, self._wall_s, self._trusted)
        return CardStore(folder, clock, self._touched, partial(self._around.observer.produced, self.device))

    def _examples(self) -> ExampleStore:
        return self._journal

    def _identity(self) -> AgentIdentity:
        return replace(super()._identity(), version=self.version)

    def _notice(self) -> str:
        return self._journal.notice

    def _boot(self) -> None:
        self.in_drawer = False
        try:
            if self._journal.start(self._trusted.now_s()):
                self._year.mended(self.number)
        except NightjarError as error:
            self._off = False
            self._crash(str(error))
        else:
            super()._boot()

    def _happen(self, what: Callable[[Driver], None]) -> None:
        before = written_so_far() if self.measured else 0
        life = self._life
        try:
            super()._happen(what)
            self._crashes = 0
            if self._journal.damaged:
                self._crash("its database is damaged")
        except NightjarError as error:
            if self._life == life:
                self._crash(str(error))
        if self.measured:
            self.written_bytes += written_so_far() - before

    def _sleep_if_idle(self) -> None:
        """Sleep without a connection, too: one that is not let in for days would poll each second."""
        driver, life = self._driver, self._life
        if driver is None or self._job is not None or not isinstance(driver.state, Ineligible):
            return
        try:
            if driver.due_at_s() is None and self._conditions() is not ALL_HOLD and self._journal.empty:
                self._driver, self._poll_at_s = None, math.inf
        except NightjarError as error:
            if self._life == life:
                self._crash(str(error))

    def _crash(self, why: str) -> None:
        """The process ends with an error; its supervisor starts it again some times."""
        self._crashes += 1
        if self._crashes < MOST_CRASHES:
            self._lose_power(SHORT_S)
            return
        self._lose_power(NEVER_S)
        self.broken = True
        self._year.broke(self.number, why)

    def _lose_power(self, off_s: float | None = None) -> None:
        super()._lose_power(off_s)
        self._journal.lose_power(self._year.rng)

    def _fetch(self, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
        before = self._model
        model = super()._fetch(manifest, should_stop)
        if self.measured and model is not before:
            self.written_bytes += model.manifest.weights.size_bytes
        return model

    def _train(self, task: SessionTask, should_stop: Callable[[], bool]) -> Produced | TrainingStopped:
        if should_stop():
            return TrainingStopped(DropoutCause.UNPLUGGED, "told to stop")
        assignment, manifest = task.assignment, task.model.manifest
        report = Report(
            round=assignment.round,
            attempt=assignment.attempt,
            codec=self._year.wire_id,
            layout=manifest.layout.fingerprint,
            version=manifest.version,
            num_examples=EXAMPLES,
            steps=STEPS,
            loss=1.0,
            seconds=1.0,
            payload=self._year.payload,
        )
        frame = encode_report(report)
        parts = len(publishes(frame, assignment.round, assignment.attempt))
        new = NewReport(Parcel(assignment.round, assignment.attempt, parts), frame)
        return Produced(new, EXAMPLES, STEPS, 1.0, 1.0)


def written_so_far() -> int:
    """Bytes that this process has written to files; 0 where the system does not count them."""
    if not IO.exists():
        return 0
    return int(IO.read_text().split("wchar:", 1)[1].split(maxsplit=1)[0])
