"""Reads the typed messages that a session learns from, in the database that the keyboard stores them in."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace

from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.session.task import SessionTask, StoredMessages
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.wire.errors import UnavailableError

TIMEOUT_S = 10.0


def newest(connection: sqlite3.Connection, caps: Caps, now_s: float) -> list[str]:
    """The messages that a session learns from, oldest first, in a transaction that forgets those beyond the limits."""
    forget_old(connection, caps, now_s)
    rows = connection.execute(
        "SELECT text FROM (SELECT id, text, row_number() OVER (PARTITION BY text ORDER BY id DESC) AS place "
        "FROM examples) WHERE place <= ? ORDER BY id DESC LIMIT ?",
        (caps.repeats, caps.session_messages),
    ).fetchall()
    return [text for (text,) in reversed(rows)]


def forget_old(connection: sqlite3.Connection, caps: Caps, now_s: float) -> None:
    """Delete the messages beyond the limits, in a transaction; ``now_s`` is on the clock of the stored times."""
    connection.execute("DELETE FROM examples WHERE typed_at_s < ?", (now_s - caps.age_s,))
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
    texts = read_messages(task.messages, SystemClock().wall_s())
    return replace(task, source=replace(task.source, texts=texts), messages=None)


def read_messages(stored: StoredMessages, now_s: float) -> list[str]:
    """The messages that a session learns from, oldest first, read by a process that does not hold the database.

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
        msg = f"the messages could not be read: {error}"
        raise UnavailableError(msg) from error
