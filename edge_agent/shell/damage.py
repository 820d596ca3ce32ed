"""Tells what is damaged from what cannot be used at the moment, and has the agent mend a damaged database.

Any of the agent's processes may come upon a damaged page. It leaves a file, and the agent starts again, which mends
(:mod:`nightjar.edge_agent.shell.mending`). Source: sqlite.org/rescode.html.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from nightjar.wire.errors import ConfigError, UnavailableError

FOUND = "damaged"
"""File that asks the agent to start again and mend the database."""
_DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
}
_UNREADABLE = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS}
"""Of the errors of input and output, those of a bad sector; others, such as a full disk, pass."""


class RestartNeededError(UnavailableError):
    """The agent must start again, which mends its database."""

    code = "damaged"


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is damaged, and not that it cannot be used at the moment."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's module: text that is no UTF-8
        return isinstance(error, sqlite3.OperationalError) and "UTF-8" in str(error)
    return code in _UNREADABLE or code & 0xFF in _DAMAGED


def note_damage(data_dir: Path, error: sqlite3.Error) -> None:
    """Ask the agent to mend the database, if the error says that it is damaged."""
    if is_damage(error):
        with contextlib.suppress(OSError):
            (data_dir / FOUND).touch(mode=0o600)


def restart_if_damaged(data_dir: Path) -> None:
    """End the agent, to start again, if one of its processes came upon a damaged database.

    Raises:
        RestartNeededError: it did.
    """
    if (data_dir / FOUND).exists():
        msg = "the database is damaged; the agent mends it when it starts again"
        raise RestartNeededError(msg)


def forget_damage(data_dir: Path) -> None:
    """Note that the database was looked at."""
    with contextlib.suppress(OSError):
        (data_dir / FOUND).unlink(missing_ok=True)


PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors of files that are no mistake of a person: a full disk, or one that the kernel made read-only."""
_PASSING_SQLITE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM}


@contextlib.contextmanager
def passing_faults() -> Iterator[None]:
    """A block whose unusable configuration is something unavailable if only the disk refuses: it is tried again.

    >>> with passing_faults():
    ...     try:
    ...         raise OSError(28, "No space left on device")
    ...     except OSError as error:
    ...         raise ConfigError("the key cannot be kept") from error
    Traceback (most recent call last):
    nightjar.wire.errors.UnavailableError: the key cannot be kept
    """
    try:
        yield
    except ConfigError as error:
        if _is_passing(error.__cause__):
            raise UnavailableError(str(error)) from error
        raise


def _is_passing(cause: BaseException | None) -> bool:
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in PASSING:
            return True
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _PASSING_SQLITE:
            return True
        cause = cause.__cause__
    return False
