"""The database: SQLAlchemy Core over SQLite in WAL mode, or over PostgreSQL by its URL.

Rounds and effects are JSON with a few columns beside them to search by; everything else has a column of its own. One
thread writes (the driver); web threads read in transactions of their own.

The driver handles hundreds of messages in one transaction, so a view *writes behind*: what is changed again and again
(the round, leases, counters) is written once, and rows of one kind (reports, effects) go out together, at the end of
the transaction or before anything is read that they could change.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import structs
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from coordinator.config import CoordinatorConfig
from coordinator.engine import effects as effect_json
from coordinator.engine.effects import PendingEffect
from coordinator.ports import StoredChunk, StoredReport, TaskRecord
from coordinator.rounds.lease import Lease
from coordinator.rounds.pace_steering import Rhythm
from coordinator.rounds.round import TERMINAL, Phase, Round
from coordinator.storage import schema
from coordinator.storage.baselines import KeptBaselines
from coordinator.storage.reading import Reading, lease_from, summary_row
from coordinator.storage.tables import (
    METADATA,
    audit,
    chunks,
    counters,
    devices,
    effects,
    facts,
    optimizer_states,
    report_frames,
    reports,
    round_summaries,
    rounds,
    tasks,
    tokens,
    upsert,
    versions,
)
from coordinator.storage.versions import VersionQueries
from coordinator.tasks.operations import AuditEntry, TokenRecord
from coordinator.tasks.settings import TaskSettings
from coordinator.tasks.task import Task
from host.files import private_file
from wire.errors import ConfigError, UnavailableError
from wire.identifiers import DeviceId

BUSY_TIMEOUT_S = 10
"""How long one connection waits for another's write; ours take milliseconds."""
STATES_TOLD_APART = 50
"""Devices choose their reasons; a person reads four of them."""
RHYTHM, HELD_OUT_TEXT, MEASURED_SINCE, BASELINES = "rhythm", "held-out-text", "measured-since", "baselines"
ORDER_NUMBER = "order-number"
"""Their names among the facts."""
IN_MEMORY = "sqlite://"
"""URL of a database that is nowhere but in memory: for tests and simulations."""

_Fact = TypeVar("_Fact")
_ROUND = msgspec.json.Decoder(Round)
_TASK, _SETTINGS = msgspec.json.Decoder(Task), msgspec.json.Decoder(TaskSettings)


def database_file(data_dir: Path) -> Path:
    """Where a coordinator keeps its SQLite database."""
    return data_dir / "coordinator.sqlite"


def database_url(config: CoordinatorConfig) -> str:
    """Where a coordinator keeps its database, as SQLAlchemy wants it.

    Raises:
        ConfigError: no URL of PostgreSQL.
    """
    if not config.database_url:
        return f"sqlite:///{database_file(config.data_dir)}"
    try:
        url = sa.make_url(config.database_url)
    except ArgumentError as error:
        msg = "database_url: expected a URL such as postgresql://user:password@host/name, got something else"
        raise ConfigError(msg) from error
    if url.get_backend_name() != "postgresql":
        msg = f"database_url: expected a postgresql:// URL, got one of {url.get_backend_name()}"
        raise ConfigError(msg)
    return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


class Database:
    """The repository of the coordinator.

    Args:
        url: SQLAlchemy's, such as ``sqlite:////var/lib/nightjar/coordinator.sqlite``; :data:`IN_MEMORY` ends with this
            object.
        after_statement: called after every statement; lets a test stop the world there.
        migrate: bring its tables up to date first; a reader must not, while a service may be running on them.

    Raises:
        UnavailableError: it cannot be opened or migrated.
        ConfigError: its tables are of another version of Nightjar: of a newer one, or it is not to be migrated.
    """

    def __init__(self, url: str, after_statement: Callable[[], None] | None = None, *, migrate: bool = True) -> None:
        self._engine = _engine(url)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _configure_sqlite)
        if after_statement is not None:
            sa.event.listen(self._engine, "after_cursor_execute", lambda *_: after_statement())
        with self._translated():
            try:
                if url == IN_MEMORY:
                    METADATA.create_all(self._engine)
                else:
                    if migrate:
                        _close_to_others(self._engine.url)
                    (schema.upgrade if migrate else schema.check)(self._engine)
                with self._engine.begin() as connection:
                    last = connection.scalar(sa.select(sa.func.max(effects.c.number))) or 0
            except Exception:
                self.close()
                raise
        # Counted here, so that many can be inserted at once; nobody else adds any.
        self._effect_numbers = itertools.count(last + 1)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[DatabaseView]:
        """Begin; commit at the end of the block, roll back if it raises.

        Raises:
            UnavailableError: the database cannot be read or written now.
        """
        with self._translated(), self._engine.begin() as connection:
            view = DatabaseView(connection, self._effect_numbers)
            yield view
            view.flush()

    @contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        """A transaction for a module with tables of its own; commits at the end of the block.

        Raises:
            UnavailableError: the database cannot be read or written now.
        """
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise  # a defect of ours, not of the disk
        except DBAPIError as error:
            where, said = self._engine.url.render_as_string(), str(error.orig)
            msg = f"the database {where} does not work: {said}; {_remedy(said)}"
            raise UnavailableError(msg) from error


def _remedy(said: str) -> str:
    if "locked" in said or "busy" in said:
        return "another program holds it: close whatever else has it open, such as a shell or a backup"
    if "full" in said or "disk" in said:
        return "free some space on its disk, and see that the disk is sound"
    return "see that it can be reached and written"


class DatabaseView(VersionQueries, Reading):
    """What a transaction can read and write; see :class:`coordinator.ports.Transaction` for each method."""

    def __init__(self, connection: sa.Connection, effect_numbers: Iterator[int]) -> None:
        self._connection = connection
        self._effect_numbers = effect_numbers
        self._rounds: dict[int, Round] = {}
        self._closed_rounds: dict[int, Round] = {}
        self._leases: dict[DeviceId, Lease] = {}
        self._changed_leases: set[DeviceId] = set()
        self._reports: list[tuple[StoredReport, bytes]] = []
        self._effects: list[tuple[int, PendingEffect]] = []
        self._counts: Counter[str] = Counter()
        self._rhythm: Rhythm | None = None
        self._rhythm_changed = False

    def flush(self) -> None:
        """Write what is held back."""
        over: list[Round] = []
        if self._rounds:
            self._put(rounds, [_round_row(state) for state in self._rounds.values()])
            over = [state for state in self._rounds.values() if state.phase in TERMINAL]
            self._rounds.clear()
        if self._reports:
            self._connection.execute(sa.insert(reports), [structs.asdict(report) for report, _ in self._reports])
            self._connection.execute(
                sa.insert(report_frames),
                [
                    {"round": report.round, "device": report.device, "attempt": report.attempt, "body": frame}
                    for report, frame in self._reports
                ],
            )
            self._counts["reports_accepted"] += len(self._reports)
            self._reports.clear()
        if over:
            self._put(round_summaries, [summary_row(state, self._connection) for state in over])
        if self._changed_leases:
            changed = [self._leases[device] for device in sorted(self._changed_leases)]
            self._put(devices, [{**structs.asdict(lease), "presence": lease.presence.value} for lease in changed])
            self._changed_leases.clear()
        if self._effects:
            added = [{"number": number, "body": effect_json.to_json(effect)} for number, effect in self._effects]
            self._connection.execute(sa.insert(effects), added)
            self._effects.clear()
        if self._counts:
            self._put(counters, [{"name": name, "value": amount} for name, amount in self._counts.items()])
            self._counts.clear()
        if self._rhythm_changed:
            self._save_fact(RHYTHM, self._rhythm)
            self._rhythm_changed = False

    def _put(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        self._connection.execute(upsert(self._connection.dialect.name, table), rows)

    # Tasks

    def tasks(self) -> list[TaskRecord]:
        """Every task, in the order in which they were made."""
        query = sa.select(tasks.c.state, tasks.c.settings).order_by(tasks.c.number)
        return [_task(state, settings) for state, settings in self._connection.execute(query)]

    def task(self, name: str) -> TaskRecord | None:
        """A task."""
        found = self._connection.execute(sa.select(tasks.c.state, tasks.c.settings).where(tasks.c.name == name)).first()
        return None if found is None else _task(found.state, found.settings)

    def save_task(self, record: TaskRecord) -> None:
        """Insert or replace a task."""
        state = record.state
        row = {
            "name": state.name,
            "number": state.number,
            "status": state.status.value,
            "state": msgspec.json.encode(state),
            "settings": msgspec.json.encode(record.settings),
        }
        self._put(tasks, [row])

    # Rounds

    def open_rounds(self) -> list[Round]:
        """The rounds that are not over, in ascending order."""
        self.flush()
        over = [phase.value for phase in TERMINAL]
        return self._find_rounds(_ROUNDS.where(rounds.c.phase.not_in(over)).order_by(rounds.c.number))

    def round(self, number: int) -> Round | None:
        """A round, over or not."""
        found = self._rounds.get(number) or self._closed_rounds.get(number)
        if found is None:
            found = next(iter(self._find_rounds(_ROUNDS.where(rounds.c.number == number))), None)
            if found is not None and found.phase in TERMINAL:  # late reports ask for it again and again
                self._closed_rounds[number] = found
        return found

    def last_round_number(self) -> int:
        """Number of the newest round; 0 before the first."""
        self.flush()
        return self._connection.scalar(sa.select(sa.func.max(rounds.c.number))) or 0

    def rounds_in(self, phase: Phase) -> int:
        """How many rounds are in a phase."""
        self.flush()
        return self._scalar(sa.select(sa.func.count()).select_from(rounds).where(rounds.c.phase == phase.value))

    def save_round(self, state: Round) -> None:
        """Insert or replace a round."""
        self._rounds[state.number] = state

    def _find_rounds(self, query: sa.Select[Any]) -> list[Round]:
        return [_ROUND.decode(state) for state in self._connection.scalars(query)]

    # Reports and chunks

    def reports(self, round_number: int) -> list[StoredReport]:
        """Accepted reports of a round, in ascending order of devices."""
        self.flush()
        query = sa.select(reports).where(reports.c.round == round_number).order_by(reports.c.device)
        return [StoredReport(**row) for row in self._connection.execute(query).mappings()]

    def add_report(self, report: StoredReport, frame: bytes) -> None:
        """Insert an accepted report and its frame."""
        self._reports.append((report, frame))

    def drop_frames(self, round_number: int) -> None:
        """Delete the frames of a round; the reports stay."""
        self.flush()
        self._connection.execute(sa.delete(report_frames).where(report_frames.c.round == round_number))

    def chunks(self, round_number: int, device: DeviceId, attempt: int) -> list[StoredChunk]:
        """Chunks of one report, in ascending order."""
        columns = [chunks.c[name] for name in StoredChunk.__struct_fields__]
        query = sa.select(*columns).where(_of_report(round_number, device, attempt)).order_by(chunks.c.number)
        return [StoredChunk(**row) for row in self._connection.execute(query).mappings()]

    def chunk_frames(self, round_number: int, device: DeviceId, attempt: int) -> list[bytes]:
        """Their frames, in the same order."""
        query = sa.select(chunks.c.body).where(_of_report(round_number, device, attempt)).order_by(chunks.c.number)
        return list(self._connection.scalars(query))

    def add_chunk(self, chunk: StoredChunk, frame: bytes) -> None:
        """Insert a chunk that is not there yet, and its frame."""
        self.flush()  # its round comes first
        self._connection.execute(sa.insert(chunks).values({**structs.asdict(chunk), "body": frame}))

    def drop_chunks(self, round_number: int, device: DeviceId | None = None) -> None:
        """Delete the chunks of a round, or of one of its devices."""
        dropped = sa.delete(chunks).where(chunks.c.round == round_number)
        self._connection.execute(dropped if device is None else dropped.where(chunks.c.device == device))

    # States of optimizers; the worker writes them (coordinator.storage.private)

    def drop_state(self, sha256: str) -> None:
        """Delete the state of an optimizer if it is there."""
        self._connection.execute(sa.delete(optimizer_states).where(optimizer_states.c.sha256 == sha256))

    def sweep_states(self) -> int:
        """Delete states that no version has, left by a kill between a state and its version; how many."""
        needed = sa.select(versions.c.optimizer_state).where(versions.c.optimizer_state.is_not(None))
        return self._connection.execute(
            sa.delete(optimizer_states).where(optimizer_states.c.sha256.not_in(needed))
        ).rowcount

    # Devices

    def lease(self, device: DeviceId) -> Lease | None:
        """What is known of a device."""
        found = self._leases.get(device)
        if found is None:
            row = self._connection.execute(sa.select(devices).where(devices.c.device == device)).mappings().first()
            if row is None:
                return None
            found = self._leases[device] = lease_from(row)
        return found

    def save_lease(self, lease: Lease) -> None:
        """Insert or replace a device."""
        self._leases[lease.device] = lease
        self._changed_leases.add(lease.device)

    def devices_since(self, since_s: float) -> int:
        """How many devices were seen since."""
        self.flush()
        return self._scalar(sa.select(sa.func.count()).select_from(devices).where(devices.c.last_seen_s >= since_s))

    def device_states(self) -> Mapping[tuple[str, str], int]:
        """How many devices are in which state; the reason is only told apart for ineligible ones."""
        self.flush()
        reason = sa.case((devices.c.state == "ineligible", devices.c.reason), else_="").label("reason")
        many = sa.func.count().label("many")
        query = sa.select(devices.c.state, reason, many).group_by(devices.c.state, reason)
        found = self._connection.execute(query.order_by(many.desc()).limit(STATES_TOLD_APART))
        return {(state, why): count for state, why, count in found}

    # Effects and counters

    def effects(self) -> list[tuple[int, PendingEffect]]:
        """Effects that were not done, in the order in which they were added."""
        self.flush()
        query = sa.select(effects.c.number, effects.c.body).order_by(effects.c.number)
        return [(number, effect_json.from_json(body)) for number, body in self._connection.execute(query)]

    def add_effect(self, effect: PendingEffect) -> int:
        """Insert an effect; its number."""
        number = next(self._effect_numbers)
        self._effects.append((number, effect))
        return number

    def begin_effects(self) -> list[tuple[int, PendingEffect, int]]:
        """As ``effects``, each with how often a process began with it, this time included."""
        self.flush()
        self._connection.execute(sa.update(effects).values(begun=effects.c.begun + 1))
        query = sa.select(effects.c.number, effects.c.body, effects.c.begun).order_by(effects.c.number)
        return [(number, effect_json.from_json(body), begun) for number, body, begun in self._connection.execute(query)]

    def remove_effects(self, numbers: Sequence[int]) -> None:
        """These effects are done."""
        if numbers:
            self.flush()
            which = effects.c.number == sa.bindparam("done")
            self._connection.execute(sa.delete(effects).where(which), [{"done": number} for number in numbers])

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._counts[name] += amount

    # Small facts

    def rhythm(self) -> Rhythm:
        """When devices check in, and how long rounds take."""
        if self._rhythm is None:
            self._rhythm = self._fact(RHYTHM, Rhythm) or Rhythm()
        return self._rhythm

    def save_rhythm(self, rhythm: Rhythm) -> None:
        """Replace it."""
        self._rhythm, self._rhythm_changed = rhythm, True

    def held_out_text(self) -> str:
        """Hash of the text that versions were measured on last; empty if there was none."""
        return self._fact(HELD_OUT_TEXT, str) or ""

    def save_held_out_text(self, sha256: str) -> None:
        """Replace it; the versions that there are were measured on another one."""
        self._save_fact(HELD_OUT_TEXT, sha256)
        self._save_fact(MEASURED_SINCE, self.last_version_number())

    def measured_since(self) -> int:
        """Versions with a higher number were measured on the present held-out text."""
        found = self._fact(MEASURED_SINCE, int)
        return -1 if found is None else found

    def baselines(self) -> KeptBaselines | None:
        """What versions are compared with, if it was measured on the text that they are measured on."""
        kept = self._fact(BASELINES, KeptBaselines)
        return None if kept is None or kept.measured.text_sha256 != self.held_out_text() else kept

    def save_baselines(self, kept: KeptBaselines) -> None:
        """Replace it."""
        self._save_fact(BASELINES, kept)

    def draw_number(self, now_s: float) -> int:
        """The number of what devices are to obey from now on: of milliseconds, so that it needs no backup."""
        number = max((self._fact(ORDER_NUMBER, int) or 0) + 1, int(now_s * 1000))
        self._save_fact(ORDER_NUMBER, number)
        return number

    def _fact(self, name: str, kind: type[_Fact]) -> _Fact | None:
        found = self._connection.scalar(sa.select(facts.c.value).where(facts.c.name == name))
        return None if found is None else msgspec.json.decode(found, type=kind)

    def _save_fact(self, name: str, value: object) -> None:
        self._put(facts, [{"name": name, "value": msgspec.json.encode(value)}])

    def add_audit(self, entry: AuditEntry) -> None:
        """Note a change; the database gives it its number."""
        values = structs.asdict(entry)
        del values["number"]
        self._connection.execute(sa.insert(audit).values(values))

    def add_token(self, token: TokenRecord) -> None:
        """Insert a token, or replace the one of that name."""
        self._connection.execute(upsert(self._connection.dialect.name, tokens), structs.asdict(token))

    def remove_token(self, name: str) -> bool:
        """Revoke a token; False if there is none."""
        return self._connection.execute(sa.delete(tokens).where(tokens.c.name == name)).rowcount > 0

    def _scalar(self, query: sa.Select[Any]) -> int:
        return int(self._connection.scalar(query) or 0)


def _of_report(round_number: int, device: DeviceId, attempt: int) -> sa.ColumnElement[bool]:
    return (chunks.c.round == round_number) & (chunks.c.device == device) & (chunks.c.attempt == attempt)


_ROUNDS = sa.select(rounds.c.state, rounds.c.task)


def _task(state: bytes, settings: bytes) -> TaskRecord:
    return TaskRecord(state=_TASK.decode(state), settings=_SETTINGS.decode(settings))


def _round_row(state: Round) -> dict[str, Any]:
    return {
        "number": state.number,
        "task": state.task,
        "phase": state.phase.value,
        "base_version": state.base_version,
        "state": msgspec.json.encode(state),
    }


def _engine(url: str) -> sa.Engine:
    if url == IN_MEMORY:  # one connection for all threads: another one would see an empty database
        return sa.create_engine(url, poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    return sa.create_engine(url)


def _close_to_others(url: sa.URL) -> None:
    """Make the file before SQLite does, which makes it readable for others; its -wal and -shm take over its mode."""
    if url.get_backend_name() == "sqlite" and url.database:
        try:
            private_file(Path(url.database))
        except OSError as error:
            msg = f"the database {url.database} cannot be made or closed to others: {error.strerror or error}"
            raise UnavailableError(msg) from error


def _configure_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")  # readers of the web page do not block the driver
    cursor.execute("PRAGMA synchronous = FULL")  # a receipt is a promise that holds through a power cut
    cursor.execute("PRAGMA secure_delete = ON")  # what is deleted of a report is overwritten
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA busy_timeout = {1000 * BUSY_TIMEOUT_S}")
    cursor.close()
