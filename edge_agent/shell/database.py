"""The device's database: one sqlite file for typed messages, lifecycle, outbox and unsent dropouts.

Readable by its owner only. It uses a write-ahead log and one transaction per change, so that a power cut leaves either
the state before or the state after. One connection behind one lock serves the keyboard's threads, the worker and the
driver; none holds it for long. Implements :class:`nightjar.edge_agent.ports.ExampleStore` and
:class:`nightjar.edge_agent.ports.Journal`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nightjar.edge_agent.core.events import SendDropout
from nightjar.edge_agent.core.exclusion import Secret, storable
from nightjar.edge_agent.core.lifecycle import State
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.edge_agent.core.stored import AgentTally, Caps, Change, PendingDropout, Remembered, SumState, over
from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.recall import RecallCount
from nightjar.edge_agent.ports import DatingClock
from nightjar.edge_agent.shell.damage import note_damage
from nightjar.edge_agent.shell.kept_apart import (
    DamagedFileError,
    KeptLedger,
    note_paused,
    read_ledger,
    with_higher,
    write_ledger,
)
from nightjar.edge_agent.shell.stored_messages import UNKNOWN_S, forget_aged, forget_old, newest
from nightjar.edge_agent.shell.typed_put_away import forget_typed
from nightjar.host.files import private_file
from nightjar.models.manifest import KEYBOARD
from nightjar.models.source import Source
from nightjar.wire.errors import ConfigError, LocalProtocolError, UnavailableError
from nightjar.wire.messages import DropoutCause

SCHEMA_VERSION = 1
"""A release of the agent that is rolled back leaves the database to the one before, which must find its tables. So the
table ``residual`` and the columns ``layout``, ``residual`` and ``carried`` stay, which agents up to 0.1 used for error
feedback; they stay empty."""
SCHEMA = """
CREATE TABLE examples (id INTEGER PRIMARY KEY, text TEXT NOT NULL, bytes INTEGER NOT NULL, typed_at_s REAL NOT NULL);
CREATE TABLE lifecycle (only INTEGER PRIMARY KEY CHECK (only = 1), state BLOB NOT NULL);
CREATE TABLE outbox (only INTEGER PRIMARY KEY CHECK (only = 1), round INTEGER NOT NULL, attempt INTEGER NOT NULL,
                     parts INTEGER NOT NULL, frame BLOB NOT NULL, layout TEXT NOT NULL, residual BLOB, carried BLOB);
CREATE TABLE residual (only INTEGER PRIMARY KEY CHECK (only = 1), layout TEXT NOT NULL, vector BLOB NOT NULL);
CREATE TABLE dropouts (number INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL, attempt INTEGER NOT NULL,
                       cause TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE summing (only INTEGER PRIMARY KEY CHECK (only = 1), state BLOB NOT NULL);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger (task TEXT PRIMARY KEY, entry BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE own_words (word TEXT PRIMARY KEY, written TEXT NOT NULL, count INTEGER NOT NULL, typed_at_s REAL NOT NULL);
CREATE TABLE recall (id INTEGER PRIMARY KEY, typed_at_s REAL NOT NULL, version INTEGER NOT NULL,
                     words INTEGER NOT NULL, top1 INTEGER NOT NULL, top3 INTEGER NOT NULL);
"""
WORTH_SHRINKING_BYTES = 4 << 20
"""Empty part of the file that is given back at a start."""
MOST_PENDING_DROPOUTS = 16
"""Dropouts of long past rounds are of no use to the coordinator."""

MOST_OWN_WORDS = 2_000
"""More than a person invents; the least recently typed words are removed first."""
MOST_RECALL_ROWS = 2_000
"""Messages whose prediction counts are kept."""

_DEATHS = "session_deaths"
LEARNING_PAUSED = "learning_paused"
_WIPES = "wipes"
_SUMMED = "last_report_summed"
_STATE = msgspec.json.Decoder(State)
_SUMMING = msgspec.msgpack.Decoder(SumState)
_ENTRY = msgspec.json.Decoder(LedgerEntry)


class Database:
    """The open database.

    The file is created if it does not exist. ``tidy`` puts it in order, which reads all of it. A process that must not
    have typed text in its memory leaves that to another (:mod:`nightjar.edge_agent.shell.message_store`), and calls
    nothing that reads messages: they are counted by an index, so that their pages are not read.

    Attributes:
        transactions: how many there were.

    Raises:
        ConfigError: the file cannot be opened, or is not a database of this version.
    """

    def __init__(self, path: Path, caps: Caps, clock: DatingClock, *, tidy: bool = True) -> None:
        self._caps = caps
        self._clock = clock
        self._folder = path.parent
        self._lock = threading.Lock()
        self.transactions = 0
        try:
            private_file(path)  # sqlite would make it readable for others; -wal and -shm inherit the file's mode
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
            self._prepare(tidy=tidy)
        except (OSError, sqlite3.Error) as error:
            msg = f"{path}: expected the agent's database, got: {error}; the agent mends it when it starts"
            raise ConfigError(msg) from error

    def _prepare(self, *, tidy: bool) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        # Deleted messages are overwritten: what a person typed must not linger in free pages.
        self._connection.execute("PRAGMA secure_delete = ON")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        elif version != SCHEMA_VERSION:
            msg = f"version {version} of the tables, this agent knows {SCHEMA_VERSION}"
            raise sqlite3.DatabaseError(msg)
        # Needs space itself. On a full disk the agent starts all the same, and the next start tries again.
        with contextlib.suppress(sqlite3.OperationalError):
            if not tidy:
                return
            self._connection.execute("CREATE INDEX IF NOT EXISTS examples_by_bytes ON examples (bytes)")
            self._empty_residual()
            self._give_space_back()

    def _empty_residual(self) -> None:
        """Empty what an agent with error feedback has left here: some 17 MB of the 1.41M-parameter model.

        The report in the outbox stays: it is complete without.
        """
        (kept,) = self._connection.execute(
            "SELECT EXISTS (SELECT 1 FROM residual) OR EXISTS (SELECT 1 FROM outbox WHERE residual IS NOT NULL)"
        ).fetchone()
        if kept:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("DELETE FROM residual")
                self._connection.execute("UPDATE outbox SET residual = NULL, carried = NULL")

    def _give_space_back(self) -> None:
        """Rewrite the file if most of it is empty and much would be gained; typical files never are."""
        sizes = (self._connection.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_count"))
        (free,), (pages,) = sizes
        (page_bytes,) = self._connection.execute("PRAGMA page_size").fetchone()
        if free * page_bytes >= WORTH_SHRINKING_BYTES and 2 * free > pages:
            self._shrink()

    def _shrink(self) -> bool:
        """Rewrite the file without its empty pages; False if another program reads it, and it is still as large."""
        self._connection.execute("VACUUM")
        # The log still holds the old pages; a checkpoint alone would leave them in the file.
        ((busy, _, _),) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy

    def leave_checkpoints(self) -> None:
        """Make none any more: another process does, so that what it writes does not pass through this one's memory."""
        self._rows("PRAGMA wal_autocheckpoint = 0")

    def make_checkpoint(self) -> None:
        """Move what is in the log into the file, as far as nobody reads it; on a full disk another time."""
        with contextlib.suppress(UnavailableError):
            self._rows("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    # --- typed messages ---

    def add(self, text: str, *, anyway: bool = False) -> str:
        """Store the permitted part of a message (``core.exclusion``); the oldest go above the limits.

        ``anyway`` says that the person wants the message kept though a rule found a secret in it.

        Returns:
            The text that was stored; empty if there was none.

        Raises:
            UnavailableError: it could not be written.
        """
        kept = storable(text, self._caps.forbidden, anyway=anyway).text
        if kept:
            with self._transaction() as connection:
                self._insert(connection, [kept])
        return kept

    def refusal(self, text: str) -> Secret | None:
        """Which rule keeps a message from being stored; None if none does."""
        return storable(text, self._caps.forbidden).secret

    def add_once(self, name: str, texts: Sequence[str]) -> bool:
        """Store the permitted parts of a named set of messages; False if this was done before."""
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM facts WHERE name = ?", (f"added {name}",)).fetchone():
                return False
            self._insert(connection, [kept for text in texts if (kept := storable(text, self._caps.forbidden).text)])
            self._remember(connection, f"added {name}", "1")
            return True

    def count(self) -> int:
        """Number of stored messages."""
        ((count,),) = self._rows("SELECT count(*) FROM examples")
        return int(count)

    def texts(self) -> list[str]:
        """The stored messages that a session learns from, oldest first."""
        with self._transaction() as connection:
            return newest(connection, self._caps, self._clock.certain_s())

    def source(self) -> Source:
        """The messages, as a session takes them; see :class:`nightjar.edge_agent.shell.examples.DeviceExamples`."""
        return Source(self.texts())

    def task_types(self) -> tuple[str, ...]:
        """The only task type that learns from messages."""
        return (KEYBOARD,)

    def _insert(self, connection: sqlite3.Connection, texts: Sequence[str]) -> None:
        now_s = self._clock.certain_s()
        dated_s = UNKNOWN_S if now_s is None else now_s
        connection.executemany(
            "INSERT INTO examples (text, bytes, typed_at_s) VALUES (?, ?, ?)",
            [(text, len(text.encode()), dated_s) for text in texts],
        )
        forget_old(connection, self._caps, now_s)

    def size_bytes(self) -> int:
        """Total size of the stored messages in UTF-8 bytes."""
        ((size,),) = self._rows("SELECT coalesce(sum(bytes), 0) FROM examples")
        return int(size)

    def wipe(self) -> None:
        """Delete all typed text and everything derived from it; the counts of sent reports stay.

        Raises:
            UnavailableError: it could not be deleted.
        """
        with self._transaction() as connection:
            for table in ("examples", "own_words", "recall", "outbox"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
            for (kept,) in connection.execute("SELECT state FROM summing").fetchall():
                rest = msgspec.msgpack.encode(over(_SUMMING.decode(kept)))  # which session it was, to join no more
                connection.execute("UPDATE summing SET state = ?", (rest,))
        forget_typed(self._folder)
        with self._lock:
            try:
                if not self._shrink():
                    msg = "another program reads the database"
                    raise sqlite3.OperationalError(msg)
            except sqlite3.Error as error:
                msg = f"everything was deleted, but the files could not be emptied yet ({error}); is the disk full?"
                raise UnavailableError(msg) from error
        self.remember(_WIPES, str(self.wipes() + 1))

    def wipes(self) -> int:
        """Number of completed wipes."""
        return int(self.fact(_WIPES) or 0)

    def learning_paused(self) -> bool:
        """Whether the user has paused learning: no text is stored, and nothing is trained."""
        return self.fact(LEARNING_PAUSED) == "1"

    def pause_learning(self, *, paused: bool) -> None:
        """Pause or resume learning."""
        try:
            note_paused(self._folder, paused=paused)
        except OSError as error:
            msg = f"it could not be noted whether learning is paused: {error}"
            raise UnavailableError(msg) from error
        self.remember(LEARNING_PAUSED, "1" if paused else "0")

    # --- what the keyboard learned ---

    def note_own_words(self, typed: Sequence[tuple[str, str]]) -> None:
        """Count words outside the vocabulary: each given in lower case and as it was typed."""
        now_s = self._clock.certain_s()
        dated_s = UNKNOWN_S if now_s is None else now_s
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO own_words VALUES (?, ?, 1, ?) ON CONFLICT (word) DO UPDATE SET "
                "written = excluded.written, count = count + 1, typed_at_s = excluded.typed_at_s",
                [(word, written, dated_s) for word, written in typed],
            )
            forget_aged(connection, "own_words", self._caps.age_s, now_s)
            connection.execute(
                "DELETE FROM own_words WHERE word NOT IN "
                "(SELECT word FROM own_words ORDER BY typed_at_s DESC, count DESC LIMIT ?)",
                (MOST_OWN_WORDS,),
            )

    def forget_own_word(self, word: str, *, offered_anyway: bool) -> None:
        """Delete a word, in lower case; one that is offered anyway stays as forgotten, with a count of 0."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM own_words WHERE word = ?", (word,))
            if offered_anyway:
                now_s = self._clock.certain_s()
                row = (word, word, UNKNOWN_S if now_s is None else now_s)
                connection.execute("INSERT INTO own_words VALUES (?, ?, 0, ?)", row)

    def own_words(self) -> list[OwnWord]:
        """The words outside the vocabulary that were typed, most frequent first; forgotten ones have a count of 0."""
        query = "SELECT word, written, count FROM own_words ORDER BY count DESC, word"
        return [OwnWord(*row) for row in self._rows(query)]

    def note_recall(self, version: int, words: int, top1: int, top3: int) -> None:
        """Record how many words of a message were predicted by a version of the model; version 0 means no model."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO recall (typed_at_s, version, words, top1, top3) VALUES (?, ?, ?, ?, ?)",
                (self._clock.wall_s(), version, words, top1, top3),
            )
            connection.execute("DELETE FROM recall WHERE id <= (SELECT max(id) FROM recall) - ?", (MOST_RECALL_ROWS,))

    def recall(self) -> list[RecallCount]:
        """The prediction counts of each message, oldest first."""
        rows = self._rows("SELECT typed_at_s, version, words, top1, top3 FROM recall ORDER BY id")
        return [RecallCount(*row) for row in rows]

    # --- journal ---

    def load(self) -> Remembered:
        """The state that the last process left."""
        states = self._rows("SELECT state FROM lifecycle")
        parcels = self._rows("SELECT round, attempt, parts FROM outbox")
        sums = self._rows("SELECT state FROM summing")
        try:
            lifecycle = _STATE.decode(states[0][0]) if states else None
        except msgspec.MsgspecError:
            # Written by another version of the agent; what must survive a restart is in the outbox.
            lifecycle = None
        parcel, summing = Parcel(*parcels[0]) if parcels else None, _SUMMING.decode(sums[0][0]) if sums else None
        return Remembered(lifecycle, parcel, int(self.fact(_DEATHS) or 0), summing)

    def commit(self, change: Change) -> None:
        """Write a change atomically; the file of the ledger first."""
        if change.charged is not None or self._joins(change.summing):
            self._keep_apart(change)
        with self._transaction() as connection:
            state = msgspec.json.encode(change.lifecycle)
            connection.execute("INSERT OR REPLACE INTO lifecycle VALUES (1, ?)", (state,))
            if change.receipted is not None:
                if change.receipted.counted:
                    self._count_report(connection)
                connection.execute("DELETE FROM outbox")
            if change.report is not None:
                new = change.report
                connection.execute(
                    "INSERT OR REPLACE INTO outbox (only, round, attempt, parts, frame, layout) "
                    "VALUES (1, ?, ?, ?, ?, '')",
                    (new.parcel.round, new.parcel.attempt, new.parcel.parts, new.frame),
                )
                self._remember(connection, "last_report_bytes", str(len(new.frame)))
                self._remember(connection, "last_trained_at_s", str(self._clock.wall_s()))
                self._remember(connection, _SUMMED, str(int(change.summing is not None)))
            if change.summing is not None:
                kept = msgspec.msgpack.encode(change.summing)
                connection.execute("INSERT OR REPLACE INTO summing VALUES (1, ?)", (kept,))
            if change.charged is not None:
                row = (change.charged.task, msgspec.json.encode(change.charged))
                connection.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?)", row)
            if change.deaths is not None:
                self._remember(connection, _DEATHS, str(change.deaths))
            for dropout in change.dropouts:
                said = (dropout.round, dropout.attempt, dropout.cause.value, dropout.detail)
                connection.execute("INSERT INTO dropouts (round, attempt, cause, detail) VALUES (?, ?, ?, ?)", said)
            connection.execute(
                "DELETE FROM dropouts WHERE number <= (SELECT max(number) FROM dropouts) - ?", (MOST_PENDING_DROPOUTS,)
            )

    def ledger(self) -> list[LedgerEntry]:
        """What the device has spent of its privacy, by task; a wipe does not delete it."""
        return [_ENTRY.decode(entry) for (entry,) in self._rows("SELECT entry FROM ledger ORDER BY task")]

    def _joins(self, summing: SumState | None) -> bool:
        """Whether a change joins another secure sum than the stored one."""
        if summing is None:
            return False
        rows = self._rows("SELECT state FROM summing")
        return not rows or _SUMMING.decode(rows[0][0]).session != summing.session

    def _keep_apart(self, change: Change) -> None:
        try:
            kept = read_ledger(self._folder) or KeptLedger()
        except DamagedFileError:
            kept = KeptLedger()  # the tables have the same, and the next start says so
        entries = [*self.ledger(), *([] if change.charged is None else [change.charged])]
        write_ledger(self._folder, with_higher(kept, entries, change.summing))

    def frame(self) -> bytes:
        """The bytes of the report in the outbox."""
        rows = self._rows("SELECT frame FROM outbox")
        if not rows:
            msg = "the outbox is empty"
            raise LocalProtocolError(msg)
        return bytes(rows[0][0])

    def pending_dropouts(self) -> list[PendingDropout]:
        """Dropouts that are still to be sent, oldest first."""
        rows = self._rows("SELECT number, round, attempt, cause, detail FROM dropouts ORDER BY number")
        return [
            PendingDropout(number, SendDropout(round_number, attempt, DropoutCause(cause), detail))
            for number, round_number, attempt, cause, detail in rows
        ]

    def dropout_sent(self, number: int) -> None:
        """Remove a dropout that was handed to the connection."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM dropouts WHERE number = ?", (number,))

    def tally(self) -> AgentTally:
        """Counts of what the device has done so far."""
        facts: dict[str, str] = dict(self._rows("SELECT name, value FROM facts"))
        size, when = facts.get("last_report_bytes"), facts.get("last_trained_at_s")
        return AgentTally(
            reports_sent=int(facts.get("reports_sent", 0)),
            bytes_sent=int(facts.get("bytes_sent", 0)),
            last_report_bytes=None if size is None else int(size),
            last_trained_at_s=None if when is None else float(when),
            last_report_summed=facts.get(_SUMMED) == "1",
        )

    # --- small facts ---

    def fact(self, name: str) -> str | None:
        """A remembered value, or None."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return str(rows[0][0]) if rows else None

    def remember(self, name: str, value: str) -> None:
        """Remember a value under a name."""
        with self._transaction() as connection:
            self._remember(connection, name, value)

    @staticmethod
    def _remember(connection: sqlite3.Connection, name: str, value: str) -> None:
        connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    @staticmethod
    def _count_report(connection: sqlite3.Connection) -> None:
        for name, term in (("reports_sent", "1"), ("bytes_sent", "length(frame)")):
            connection.execute(
                f"INSERT INTO facts SELECT '{name}', {term} FROM outbox WHERE true "  # noqa: S608 - two constants
                "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + excluded.value"
            )

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                note_damage(self._folder, error)
                msg = f"the agent's database could not be read: {error}"
                raise UnavailableError(msg) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self.transactions += 1
            try:
                with self._connection:  # commits, or rolls back after an exception
                    self._connection.execute("BEGIN IMMEDIATE")
                    yield self._connection
            except sqlite3.Error as error:
                note_damage(self._folder, error)
                msg = (
                    f"the agent's database could not be written ({error}); "
                    "is the disk full or read-only, or the file open elsewhere?"
                )
                raise UnavailableError(msg) from error
