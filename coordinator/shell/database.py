"""The database: SQLAlchemy Core over SQLite in WAL mode, or over any other SQL URL.

Rounds and effects are JSON with a few columns beside them to search by; everything else has a column of its own. One
thread writes (the driver); web threads read in transactions of their own.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from msgspec import structs
from sqlalchemy.exc import DBAPIError, IntegrityError

from coordinator import effects as effect_json
from coordinator.core.lease import Lease
from coordinator.core.round import TERMINAL, Phase, Round
from coordinator.effects import PendingEffect
from coordinator.jobs import Metrics
from coordinator.ports import RoundSummary, StoredChunk, StoredReport, VersionRecord
from coordinator.shell.tables import chunks, counters, devices, effects, reports, rounds, versions
from wire.errors import UnavailableError
from wire.identifiers import DeviceId

BUSY_TIMEOUT_S = 10
"""How long one connection waits for another's write; ours take milliseconds."""
MEDIAN_OF = 1000
"""The median is of the newest reports, so that it stays cheap and tells of today."""

_ROUND = msgspec.json.Decoder(Round)


class Database:
    """The repository of the coordinator.

    Args:
        url: SQLAlchemy's, such as ``sqlite:////var/lib/nightjar/coordinator.sqlite``.
        after_statement: called after every statement; lets a test stop the world there.

    Raises:
        UnavailableError: it cannot be opened or migrated.
    """

    def __init__(self, url: str, after_statement: Callable[[], None] | None = None) -> None:
        self._engine = sa.create_engine(url)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _configure_sqlite)
        if after_statement is not None:
            sa.event.listen(self._engine, "after_cursor_execute", lambda *_: after_statement())
        with self._translated(), self._engine.begin() as connection:
            _migrate(connection)

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
            yield DatabaseView(connection)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise  # a defect of ours, not of the disk
        except DBAPIError as error:
            msg = f"the database {self._engine.url.render_as_string()} does not work: {error.orig}"
            raise UnavailableError(msg) from error


class DatabaseView:
    """What a transaction can read and write; see :class:`coordinator.ports.Transaction` for each method."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    # Rounds

    def open_round(self) -> Round | None:
        """The round that is not over."""
        over = [phase.value for phase in TERMINAL]
        state = self._connection.scalar(sa.select(rounds.c.state).where(rounds.c.phase.not_in(over)))
        return None if state is None else _ROUND.decode(state)

    def round(self, number: int) -> Round | None:
        """A round, over or not."""
        state = self._connection.scalar(sa.select(rounds.c.state).where(rounds.c.number == number))
        return None if state is None else _ROUND.decode(state)

    def last_round_number(self) -> int:
        """Number of the newest round; 0 before the first."""
        return self._connection.scalar(sa.select(sa.func.max(rounds.c.number))) or 0

    def rounds_in(self, phase: Phase) -> int:
        """How many rounds are in a phase."""
        return self._scalar(sa.select(sa.func.count()).select_from(rounds).where(rounds.c.phase == phase.value))

    def save_round(self, state: Round) -> None:
        """Insert or replace a round."""
        values = {"phase": state.phase.value, "base_version": state.base_version, "state": msgspec.json.encode(state)}
        self._upsert(rounds, {"number": state.number}, values)

    # Reports and chunks

    def reports(self, round_number: int) -> list[StoredReport]:
        """Accepted reports of a round, in ascending order of devices."""
        query = sa.select(reports).where(reports.c.round == round_number).order_by(reports.c.device)
        return [StoredReport(**row) for row in self._connection.execute(query).mappings()]

    def add_report(self, report: StoredReport) -> None:
        """Insert an accepted report."""
        self._connection.execute(sa.insert(reports).values(structs.asdict(report)))

    def chunks(self, round_number: int, device: DeviceId, attempt: int) -> list[StoredChunk]:
        """Chunks of one report, in ascending order."""
        query = sa.select(chunks).where(
            chunks.c.round == round_number, chunks.c.device == device, chunks.c.attempt == attempt
        )
        return [StoredChunk(**row) for row in self._connection.execute(query.order_by(chunks.c.number)).mappings()]

    def add_chunk(self, chunk: StoredChunk) -> None:
        """Insert a chunk that is not there yet."""
        self._connection.execute(sa.insert(chunks).values(structs.asdict(chunk)))

    def drop_chunks(self, round_number: int, device: DeviceId | None = None) -> list[str]:
        """Delete the chunks of a round, or of one of its devices; the hashes that no other chunk names."""
        which = chunks.c.round == round_number
        if device is not None:
            which = which & (chunks.c.device == device)
        hashes = set(self._connection.scalars(sa.select(chunks.c.sha256).where(which)))
        if hashes:
            self._connection.execute(sa.delete(chunks).where(which))
            hashes.difference_update(self._connection.scalars(sa.select(chunks.c.sha256)))
        return sorted(hashes)

    def private_blobs(self) -> set[str]:
        """Hashes of the private blobs that are still needed: open reports, chunks, the optimizer's state."""
        over = [phase.value for phase in TERMINAL]
        still_open = sa.select(rounds.c.number).where(rounds.c.phase.not_in(over))
        needed = set(self._connection.scalars(sa.select(reports.c.sha256).where(reports.c.round.in_(still_open))))
        needed.update(self._connection.scalars(sa.select(chunks.c.sha256)))
        current = self.current_version()
        if current is not None and current.optimizer_state is not None:
            needed.add(current.optimizer_state)
        return needed

    # Devices

    def lease(self, device: DeviceId) -> Lease | None:
        """What is known of a device."""
        row = self._connection.execute(sa.select(devices).where(devices.c.device == device)).mappings().first()
        return None if row is None else Lease(**row)

    def save_lease(self, lease: Lease) -> None:
        """Insert or replace a device."""
        values = structs.asdict(lease)
        del values["device"]
        self._upsert(devices, {"device": lease.device}, values)

    def devices_since(self, since_s: float) -> int:
        """How many devices were seen since."""
        return self._scalar(sa.select(sa.func.count()).select_from(devices).where(devices.c.last_seen_s >= since_s))

    def leases(self, limit: int) -> list[Lease]:
        """The devices seen last, in ascending order of their names."""
        query = sa.select(devices).order_by(devices.c.last_seen_s.desc()).limit(limit)
        found = [Lease(**row) for row in self._connection.execute(query).mappings()]
        return sorted(found, key=lambda lease: lease.device)

    # Versions

    def version(self, number: int) -> VersionRecord | None:
        """A version."""
        return self._first_version(sa.select(versions).where(versions.c.version == number))

    def current_version(self) -> VersionRecord | None:
        """The newest version."""
        return self._first_version(sa.select(versions).order_by(versions.c.version.desc()).limit(1))

    def add_version(self, record: VersionRecord) -> None:
        """Insert a version."""
        values = structs.asdict(record)
        metrics = values.pop("metrics")
        measured = {} if metrics is None else structs.asdict(metrics)
        self._connection.execute(sa.insert(versions).values({**values, **measured}))

    def set_metrics(self, version: int, metrics: Metrics) -> None:
        """Note how good a version is."""
        which = versions.c.version == version
        self._connection.execute(sa.update(versions).where(which).values(structs.asdict(metrics)))

    def versions(self, limit: int) -> list[VersionRecord]:
        """The newest versions, in ascending order."""
        query = sa.select(versions).order_by(versions.c.version.desc()).limit(limit)
        return [_version(row) for row in self._connection.execute(query).mappings()][::-1]

    # Effects and counters

    def effects(self) -> list[tuple[int, PendingEffect]]:
        """Effects that were not done, in the order in which they were added."""
        query = sa.select(effects.c.number, effects.c.body).order_by(effects.c.number)
        return [(number, effect_json.from_json(body)) for number, body in self._connection.execute(query)]

    def add_effect(self, effect: PendingEffect) -> int:
        """Insert an effect; its number."""
        done = self._connection.execute(sa.insert(effects).values(body=effect_json.to_json(effect)))
        key = done.inserted_primary_key
        return int(key[0]) if key is not None else 0

    def remove_effects(self, numbers: Sequence[int]) -> None:
        """These effects are done."""
        if numbers:
            self._connection.execute(sa.delete(effects).where(effects.c.number.in_(numbers)))

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        which = counters.c.name == name
        if not self._update(sa.update(counters).where(which).values(value=counters.c.value + amount)):
            self._connection.execute(sa.insert(counters).values(name=name, value=amount))

    def counters(self) -> Mapping[str, int]:
        """Every counter by name."""
        rows = self._connection.execute(sa.select(counters.c.name, counters.c.value))
        return {row.name: row.value for row in rows}

    # For people

    def recent_rounds(self, limit: int) -> list[RoundSummary]:
        """The newest rounds, in ascending order."""
        query = sa.select(rounds.c.state).order_by(rounds.c.number.desc()).limit(limit)
        states = [_ROUND.decode(state) for state in self._connection.scalars(query)][::-1]
        if not states:
            return []
        of_each: dict[int, list[tuple[float, int, int]]] = {}
        figures = sa.select(reports.c.round, reports.c.loss, reports.c.num_examples, reports.c.size_bytes)
        for number, loss, num_examples, size_bytes in self._connection.execute(
            figures.where(reports.c.round >= states[0].number)
        ):
            of_each.setdefault(number, []).append((loss, num_examples, size_bytes))
        return [_summary(state, of_each.get(state.number, [])) for state in states]

    def accepted_reports(self) -> int:
        """Accepted reports of all rounds."""
        return self._scalar(sa.select(sa.func.count()).select_from(reports))

    def report_bytes_median(self) -> int | None:
        """Median length of the newest accepted reports."""
        query = sa.select(reports.c.size_bytes).order_by(reports.c.received_s.desc()).limit(MEDIAN_OF)
        sizes = list(self._connection.scalars(query))
        return int(statistics.median(sizes)) if sizes else None

    def _first_version(self, query: sa.Select[Any]) -> VersionRecord | None:
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _version(row)

    def _scalar(self, query: sa.Select[Any]) -> int:
        return int(self._connection.scalar(query) or 0)

    def _update(self, statement: sa.Update) -> bool:
        return self._connection.execute(statement).rowcount > 0

    def _upsert(self, table: sa.Table, key: dict[str, Any], values: dict[str, Any]) -> None:
        which = sa.and_(*(table.c[name] == value for name, value in key.items()))
        if not self._update(sa.update(table).where(which).values(values)):
            self._connection.execute(sa.insert(table).values({**key, **values}))


def _version(row: sa.RowMapping) -> VersionRecord:
    values: dict[str, Any] = {str(name): value for name, value in row.items()}
    top1, top3, loss = values.pop("top1"), values.pop("top3"), values.pop("loss")
    return VersionRecord(**values, metrics=None if top1 is None else Metrics(top1, top3, loss))


def _summary(state: Round, figures: list[tuple[float, int, int]]) -> RoundSummary:
    if not figures:
        return RoundSummary(state=state, mean_training_loss=None, report_bytes_median=None)
    examples = sum(num_examples for _, num_examples, _ in figures)
    return RoundSummary(
        state=state,
        mean_training_loss=sum(loss * num_examples for loss, num_examples, _ in figures) / examples,
        report_bytes_median=int(statistics.median(size for _, _, size in figures)),
    )


def _configure_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")  # readers of the web page do not block the driver
    cursor.execute("PRAGMA synchronous = FULL")  # a receipt is a promise that holds through a power cut
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA busy_timeout = {1000 * BUSY_TIMEOUT_S}")
    cursor.close()


def _migrate(connection: sa.Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
