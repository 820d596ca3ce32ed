"""Mends a damaged database: puts the file away, and goes on with what of it can still be read.

SQLite has no checksums of its pages. So before an agent opens its database, a process of its own checks the file's
structure (``PRAGMA integrity_check``) and reads every row as the agent would. What cannot be read stays behind in the
file that is put away. The ledger is merged with its own file, and is never lower than either.

The mended database is complete before the damaged one is moved, so a power cut leaves one of the two.
Source: sqlite.org/rescode.html, sqlite.org/howtocorrupt.html.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import sqlite3
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.privacy_ledger import LOST, LedgerEntry
from nightjar.edge_agent.core.stored import SumState
from nightjar.edge_agent.link.connection import FACT as CONNECTION
from nightjar.edge_agent.link.connection import ConnectionState
from nightjar.edge_agent.link.trust import REFUSED, TRUSTED, Trusted
from nightjar.edge_agent.shell.damage import PASSING, forget_damage, is_damage
from nightjar.edge_agent.shell.database import LEARNING_PAUSED, SCHEMA, SCHEMA_VERSION
from nightjar.edge_agent.shell.kept_apart import (
    LEDGER,
    PAUSED,
    DamagedFileError,
    KeptLedger,
    read_ledger,
    with_higher,
    write_ledger,
)
from nightjar.edge_agent.shell.write_ahead_log import HEADER_BYTES, log_fault
from nightjar.host.files import private_file, put_in_place, read_file
from nightjar.host.put_away import FOLDER as PUT_AWAY
from nightjar.host.put_away import NO_FILE, note, put_away, put_copy_away
from nightjar.wire import frame as frames
from nightjar.wire.errors import NightjarError, UnavailableError
from nightjar.wire.messages import DropoutCause

MENDED, _PARTIAL = ".mended", ".mended.part"
"""Suffixes of a mended database before it is in its place, and before it is complete."""
GONE = "it was gone"
_TIMEOUT_S = 10.0
_PAGE_BYTES, _PAGES_AT = 4096, 28
"""Size of a page, and where the first one says how many there are (sqlite.org/fileformat2.html)."""
_SUMS = "SELECT state FROM summing"
_LOG = "-wal"
_BESIDE = (_LOG, "-shm", "-journal")
_NO_TABLES = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CANTOPEN}
"""What SQLite also says of a damaged file while it is opened: no such table, cannot open it."""
_UNREADABLE_ROW = (ValueError, TypeError, OverflowError, msgspec.MsgspecError, NightjarError)
_NOT_THE_FILE = PASSING - {errno.EIO}

Row = tuple[Any, ...]
Check = Callable[[Row], object]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table: its columns, the order to read it in, and what raises for a row that the agent could not read."""

    columns: str
    order: str
    check: Check


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table by their key, and whether these are all."""

    rows: dict[Any, Row]
    whole: bool


def _text(value: object) -> str:
    if not isinstance(value, str):
        msg = "expected text"
        raise TypeError(msg)
    value.encode()  # raises for what was no UTF-8
    return value


def _fact(row: Row) -> None:
    name, value = _text(row[0]), _text(row[1])
    if name in {"session_deaths", "wipes", "reports_sent", "bytes_sent", "last_report_bytes", REFUSED}:
        int(value)
    elif name in {"last_trained_at_s", "emulation_started_s"}:
        float(value)
    elif name == TRUSTED:
        msgspec.json.decode(value, type=Trusted)
    elif name == CONNECTION:
        msgspec.json.decode(value, type=ConnectionState)


def _entry(row: Row) -> None:
    if msgspec.json.decode(row[1], type=LedgerEntry).task != _text(row[0]):
        msg = "an entry of another task"
        raise ValueError(msg)


def _report(row: Row) -> None:
    Parcel(*(int(number) for number in row[1:4]))
    frames.decode(bytes(row[4]))


_TABLES = {
    "facts": _Table("name, value", "name", _fact),
    "ledger": _Table("task, entry", "task", _entry),
    "lifecycle": _Table("only, state", "only", lambda row: bytes(row[1])),
    "summing": _Table("only, state", "only", lambda row: msgspec.msgpack.decode(row[1], type=SumState)),
    "outbox": _Table("only, round, attempt, parts, frame, layout", "only", _report),
    "examples": _Table("id, text, bytes, typed_at_s", "id", lambda row: (_text(row[1]), int(row[2]), float(row[3]))),
    "own_words": _Table(
        "word, written, count, typed_at_s",
        "rowid",
        lambda row: (_text(row[0]), _text(row[1]), int(row[2]), float(row[3])),
    ),
    "recall": _Table("id, typed_at_s, version, words, top1, top3", "id", lambda row: [float(value) for value in row]),
    "dropouts": _Table(
        "number, round, attempt, cause, detail",
        "number",
        lambda row: (int(row[1]), int(row[2]), DropoutCause(row[3]), _text(row[4])),
    ),
}


def mend(path: Path, wall_s: float | None) -> str:
    """Mend a database if it is damaged, before anybody opens it; returns what was wrong, empty if nothing was.

    ``wall_s`` is the time to name in the note, if it is trusted.

    Raises:
        UnavailableError: it could not be mended now: a full disk, another program in the database.
    """
    folder = path.parent
    beside = [path.with_name(path.name + end) for end in _BESIDE]
    try:
        _finish(path)
        ledger = _ledger_of(folder, wall_s)
        put_away(folder, [each for each in beside if each.exists() and not each.is_file()], NO_FILE, wall_s)
        has_log = _keep_damaged_log(path.with_name(path.name + _LOG), wall_s)
        known = ledger is not None or has_log or (folder / PUT_AWAY).exists()
        why = _damage(path, known=known)
        if why:
            tables = _salvaged(path)
            _make(path, tables, ledger, paused=(folder / PAUSED).exists())
            put_away(folder, [path, *beside], why, wall_s)
            if why == GONE:
                note(folder, path.name, why, wall_s)
            _finish(path)
        forget_damage(folder)
    except (OSError, sqlite3.Error) as error:
        msg = f"{path} could not be checked or mended: {error}; is the disk full, or another program reading it?"
        raise UnavailableError(msg) from error
    return why


def agree(path: Path) -> None:
    """Make the ledger's file and its table the same: what is higher counts.

    Raises:
        UnavailableError: one of them cannot be written.
    """
    try:
        kept = read_ledger(path.parent) or KeptLedger()
    except DamagedFileError:
        kept = KeptLedger()
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=_TIMEOUT_S)) as connection:
            rows = connection.execute("SELECT entry FROM ledger").fetchall()
            entries = [msgspec.json.decode(entry, type=LedgerEntry) for (entry,) in rows]
            sums = [msgspec.msgpack.decode(state, type=SumState) for (state,) in connection.execute(_SUMS)]
            merged = with_higher(kept, entries, sums[0] if sums else None)
            missing = [entry for entry in merged.entries if entry not in entries]
            if missing:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.executemany("INSERT OR REPLACE INTO ledger VALUES (?, ?)", map(_ledger_row, missing))
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        msg = f"the ledger could not be compared with its file: {error}"
        raise UnavailableError(msg) from error
    write_ledger(path.parent, merged)


def _ledger_of(folder: Path, wall_s: float | None) -> KeptLedger | None:
    try:
        return read_ledger(folder)
    except DamagedFileError as error:
        put_away(folder, [folder / LEDGER], str(error), wall_s)
        return None


def _keep_damaged_log(log: Path, wall_s: float | None) -> bool:
    """Whether there is a log with something in it. Of a damaged one a copy is kept, before anybody opens the database.

    SQLite goes on with what comes before the damage, and deletes the rest.
    """
    if not log.is_file():
        return False
    try:
        data = read_file(log, -1)
    except OSError as error:
        if error.errno in _NOT_THE_FILE:
            raise
        put_away(log.parent, [log], f"it cannot be read: {error.strerror}", wall_s)
        return True
    why = log_fault(data)
    if why:
        digest = hashlib.sha256(data).hexdigest()
        put_copy_away(log.parent, log.name, data, f"{why}; what comes after that is lost ({digest[:12]})", wall_s)
    return len(data) > HEADER_BYTES


def _damage(path: Path, *, known: bool) -> str:
    """What is wrong with a database; never quotes what is in it. ``known`` says that there was one before."""
    if not (path.exists() or path.is_symlink()):
        return GONE if known else ""
    if not path.is_file():
        return NO_FILE
    if not path.stat().st_size:
        return "it was empty" if known else ""
    try:
        private_file(path)
    except OSError as error:
        if error.errno in _NOT_THE_FILE:
            raise
        return f"it cannot be opened: {error.strerror}"
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=_TIMEOUT_S)) as connection:
            return _fault(connection, known=known)
    except sqlite3.Error as error:
        if is_damage(error) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_TABLES:
            return str(error)
        raise


def _fault(connection: sqlite3.Connection, *, known: bool) -> str:
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version == 0 and not names:
        return "it had no tables" if known else ""  # a first start that was interrupted
    if version != SCHEMA_VERSION or not names >= _TABLES.keys():
        return f"it has version {version} of the tables or lacks some, this agent knows {SCHEMA_VERSION}"
    (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if result != "ok":
        return str(result).replace("\n", " ")
    for name, table in _TABLES.items():
        try:
            for row in connection.execute(f"SELECT {table.columns} FROM {name}"):  # noqa: S608 - our own names
                table.check(row)
        except _UNREADABLE_ROW as error:
            return f"the table {name} has a row that cannot be read ({type(error).__name__})"
    return ""


def _salvaged(path: Path) -> dict[str, _Rows]:
    """What can be read of each table, from its beginning and from its end."""
    # SQLite would delete the log of an empty file.
    if not path.is_file() or not path.stat().st_size:
        return _nothing()
    found = _read_all(lambda: sqlite3.connect(path, isolation_level=None, timeout=_TIMEOUT_S))
    if all(table.whole for table in found.values()):
        return found
    more = _read_all(lambda: _with_first_page(path))
    # Whether these are all rows is not known of a table that may begin elsewhere.
    return {name: _Rows(more[name].rows | table.rows, table.whole) for name, table in found.items()}


def _nothing() -> dict[str, _Rows]:
    return {name: _Rows({}, whole=False) for name in _TABLES}


def _read_all(connect: Callable[[], sqlite3.Connection]) -> dict[str, _Rows]:
    found = _nothing()
    with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(connect()) as connection:
        connection.text_factory = lambda data: data.decode(errors="surrogateescape")
        connection.execute("PRAGMA writable_schema = ON")  # a damaged line of the schema costs only its table
        for name, table in _TABLES.items():
            found[name] = _read(connection, name, table)
    return found


def _with_first_page(path: Path) -> sqlite3.Connection:
    """The database with the first page of a new one, which says where each table begins: always in the same places."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        new.executescript(SCHEMA)
        first = bytearray(new.serialize()[:_PAGE_BYTES])
    rest = path.read_bytes()[_PAGE_BYTES:]
    struct.pack_into(">I", first, _PAGES_AT, 1 + len(rest) // _PAGE_BYTES)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(bytes(first) + rest)
    return connection


def _read(connection: sqlite3.Connection, name: str, table: _Table) -> _Rows:
    rows: dict[Any, Row] = {}
    whole = True
    for way in ("ASC", "DESC"):
        query = f"SELECT {table.columns} FROM {name} ORDER BY {table.order} {way}"  # noqa: S608 - our own names
        try:
            for row in connection.execute(query):
                try:
                    table.check(row)
                    rows[row[0]] = row
                except _UNREADABLE_ROW:
                    whole = False
        except sqlite3.Error:
            whole = False
            continue
        break
    return _Rows(rows, whole)


def _make(path: Path, tables: dict[str, _Rows], ledger: KeptLedger | None, *, paused: bool) -> None:
    """Make a complete database of what was salvaged, beside the damaged one."""
    if not tables["ledger"].whole and ledger is None:
        tables["ledger"].rows[""] = _ledger_row(LOST)
    if ledger is not None and ledger.joined is not None and not tables["summing"].rows:
        tables["summing"].rows[1] = (1, msgspec.msgpack.encode(ledger.joined))
    if paused:
        tables["facts"].rows[LEARNING_PAUSED] = (LEARNING_PAUSED, "1")
    partial = path.with_name(path.name + _PARTIAL)
    partial.unlink(missing_ok=True)
    private_file(partial)
    with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        with connection:
            connection.execute("BEGIN")
            for name, table in _TABLES.items():
                marks = ", ".join("?" for _ in table.columns.split(","))
                connection.executemany(
                    f"INSERT OR IGNORE INTO {name} ({table.columns}) VALUES ({marks})",  # noqa: S608 - our own names
                    tables[name].rows.values(),
                )
    put_in_place(partial, path.with_name(path.name + MENDED))


def _finish(path: Path) -> None:
    """Take a mended database, if the damaged one is out of the way."""
    mended = path.with_name(path.name + MENDED)
    if not mended.is_file():
        return
    if path.exists():
        mended.unlink()
    else:
        put_in_place(mended, path)


def _ledger_row(entry: LedgerEntry) -> Row:
    return entry.task, msgspec.json.encode(entry)
