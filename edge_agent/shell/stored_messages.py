"""Reads the typed messages that a session learns from, in the database that the keyboard stores them in."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace

from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.session.task import SessionTask, StoredMessages
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.damage import note_damage
from nightjar.wire.errors import UnavailableError

TIMEOUT_S = 10.0


UNKNOWN_S = 1e12
"""Date of what is typed while the time is not certain: as new as can be, for the agents of before, too."""
EARLIEST_S = 1_577_836_800.0
"""2020-01-01: no message is older, so the clock that dated it was wrong."""


def newest(connection: sqlite3.Connection, caps: Caps, now_s: float | None) -> list[str]:
    """The messages that a session learns from, oldest first, in a transaction that forgets those beyond the limits."""
    forget_old(connection, caps, now_s)
    rows = connection.execute(
        "SELECT text FROM (SELECT id, text, row_number() OVER (PARTITION BY text ORDER BY id DESC) AS place "
        "FROM examples) WHERE place <= ? ORDER BY id DESC LIMIT ?",
        (caps.repeats, caps.session_messages),
    ).fetchall()
    return [text for (text,) in reversed(rows)]


def forget_aged(connection: sqlite3.Connection, table: str, age_s: float, now_s: float | None) -> None:
    """Delete the rows that are too old, in a transaction; none while the time is not certain (``now_s`` is None).

    What a wrong clock has dated counts as typed now: it may stay longer than it should, and is never lost early.
    """
    if now_s is None:
        return
    connection.execute(
        f"UPDATE {table} SET typed_at_s = ? WHERE typed_at_s > ? OR typed_at_s < ?",  # noqa: S608 - our own names
        (now_s, now_s, EARLIEST_S),
    )
    connection.execute(f"DELETE FROM {table} WHERE typed_at_s < ?", (now_s - age_s,))  # noqa: S608 - our own names


def forget_old(connection: sqlite3.Connection, caps: Caps, now_s: float | None) -> None:
    """Delete the messages beyond the limits, in a transaction; ``now_s`` is None while the time is not certain."""
    forget_aged(connection, "examples", caps.age_s, now_s)
    connection.execute(
        "DELETE FROM examples WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER newest AS place, "
        "sum(bytes) OVER newest AS total FROM examples WINDOW newest AS (ORDER BY id DESC)) "
        "WHERE place > ? OR total > ?)",
        (caps.messages, caps.total_bytes),
    )


def with_messages(task: SessionTask) -> SessionTask:
    """The task with the messages in its source.

    Raises:
        UnavailableError: they cannot be read.
    """
    if task.messages is None:
        return task
    texts = read_messages(task.messages, SystemClock(task.messages.database.parent).certain_s())
    return replace(task, source=replace(task.source, texts=texts), messages=None)


def read_messages(stored: StoredMessages, now_s: float | None) -> list[str]:
    """The messages that a session learns from, oldest first, read by a process that does not hold the database.

    ``now_s`` is None while the time is not certain.

    Raises:
        UnavailableError: they cannot be read.
    """
    try:
        with contextlib.closing(
            sqlite3.connect(stored.database, isolation_level=None, timeout=TIMEOUT_S)
        ) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                return newest(connection, stored.caps, now_s)
    except sqlite3.Error as error:
        note_damage(stored.database.parent, error)
        msg = f"the messages could not be read: {error}"
        raise UnavailableError(msg) from error
