"""Looks over a data folder before a start: what can be made again is put away, what cannot is refused in words.

Damage leaves folders, named pipes and links in the place of files, files of any length, and files that are gone. None
of it may keep a coordinator waiting, and nothing that only a backup can bring back may be overwritten: a database that
is gone is not begun anew beside the artifacts that it knew. What the content of a file must be is checked by whoever
reads it; of SQLite's files it is checked here.
"""

from __future__ import annotations

import enum
import os
import pwd
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import structlog

from nightjar.coordinator.control_socket import FILE as SOCKET_FILE
from nightjar.coordinator.storage.artifacts import ARTIFACTS
from nightjar.coordinator.storage.drawing_key import FILE as DRAWING_KEY
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.release_metadata import FOLDER as RELEASES
from nightjar.coordinator.storage.release_metadata import ONLINE_KEY
from nightjar.coordinator.storage.signing_key import KEY_FILE, KEYS_FILE, NEXT_KEY_FILE
from nightjar.coordinator.tls.authority import CURRENT, FORMER
from nightjar.coordinator.tls.contexts import FOLDER as TLS
from nightjar.coordinator.tls.files import AUTHORITY_FOLDER, SERVER_FOLDER
from nightjar.host.files import PARTIAL, read_file
from nightjar.host.put_away import put_away
from nightjar.wire.errors import ConfigError, UnavailableError, rewording

RESTORE = "nothing was changed; restore a backup into an empty folder (docs/operating.md, Backups)"
"""What to do about what cannot be made again."""
_MAGIC = b"SQLite format 3\0"
_WAL_MAGIC = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))

_log = structlog.get_logger("coordinator")


class _Kind(enum.Enum):
    FILE = "a file"
    FOLDER = "a folder"
    SOCKET = "a socket"


class _Place(NamedTuple):
    pattern: str
    kind: _Kind
    made_again: bool  # without a backup


def _places(database: str) -> Iterator[_Place]:
    """Everything in a data folder, folders before what is in them."""
    for name in (database, KEY_FILE, KEYS_FILE):
        yield _Place(name, _Kind.FILE, made_again=False)
    yield _Place(ARTIFACTS, _Kind.FOLDER, made_again=False)
    yield _Place(f"{ARTIFACTS}/??", _Kind.FOLDER, made_again=True)
    yield _Place(f"{ARTIFACTS}/??/*", _Kind.FILE, made_again=True)  # a version's, which then has lost it
    for folder, files in ((AUTHORITY_FOLDER, (CURRENT, FORMER)), (RELEASES, (ONLINE_KEY,))):
        yield _Place(folder, _Kind.FOLDER, made_again=False)
        yield _Place(f"{folder}/*{PARTIAL}", _Kind.FILE, made_again=True)
        yield from (_Place(f"{folder}/{name}", _Kind.FILE, made_again=False) for name in files)
    for folder in (TLS, SERVER_FOLDER, "broker", f"{RELEASES}/metadata"):
        yield _Place(folder, _Kind.FOLDER, made_again=True)
        yield _Place(f"{folder}/*", _Kind.FILE, made_again=True)
    yield _Place(SOCKET_FILE, _Kind.SOCKET, made_again=True)
    logs = ("worker.log", "worker.log.1")
    for name in (f"{database}-shm", f"{database}-wal", DRAWING_KEY, NEXT_KEY_FILE, f"*{PARTIAL}", *logs):
        yield _Place(name, _Kind.FILE, made_again=True)


def look_over(data_dir: Path, *, sqlite: bool) -> None:
    """Put away what is wrong and can be made again; ``sqlite``: whether the database is in the folder, too.

    The caller holds the lock of the folder.

    Raises:
        ConfigError: something is wrong that only a backup can bring back; the message names all of it.
        UnavailableError: what is wrong cannot be put away.
    """
    database = database_file(data_dir)
    faults: list[str] = []
    with rewording(
        UnavailableError, f"cannot look over {data_dir}", "see that its user owns it, and that its disk works"
    ):
        for place in _places(database.name):
            for path in _matching(data_dir, place.pattern):
                wrong = _wrong(path, place.kind)
                if wrong and place.made_again:
                    put_damaged_away(data_dir, path, f"expected {place.kind.value}, got {wrong}")
                elif wrong:
                    faults.append(f"{path}: expected {place.kind.value}, got {wrong}")
        used = any((data_dir / ARTIFACTS).glob("??/*"))
        if used and not (data_dir / KEY_FILE).exists() and not (data_dir / KEYS_FILE).exists():
            faults.append(f"{data_dir / KEY_FILE}: expected the key that signs orders, which devices know, got none")
        if sqlite and not faults:
            faults += _database_faults(database, used=used)
    if faults:
        msg = f"data_dir: {'; '.join(faults)}; {RESTORE}"
        raise ConfigError(msg)


def put_damaged_away(data_dir: Path, path: Path, why: str) -> None:
    """Put away what can be made again, and log it.

    Raises:
        OSError: it cannot be moved.
    """
    put_away(data_dir, [path], why)
    _log.warning("damaged_file_put_away", file=str(path), reason=why)


def _matching(data_dir: Path, pattern: str) -> list[Path]:
    """What matches; glob leaves out links to nothing where it need not list a folder."""
    return sorted(data_dir.glob(pattern)) if "*" in pattern or "?" in pattern else [data_dir / pattern]


def _wrong(path: Path, kind: _Kind) -> str:
    """What is in a place instead; empty if it is of the right kind, and may be used."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return "a link to nothing" if path.is_symlink() else ""
    except OSError as error:
        return f"something that cannot be looked at ({error.strerror})"
    mode = status.st_mode
    is_right = {_Kind.FILE: stat.S_ISREG, _Kind.FOLDER: stat.S_ISDIR, _Kind.SOCKET: stat.S_ISSOCK}[kind]
    if not is_right(mode):
        return _named(mode)
    wanted = os.R_OK | os.W_OK | (os.X_OK if kind is _Kind.FOLDER else 0)
    if not os.access(path, wanted):
        owner = f"owner {_user(status.st_uid)}, mode {stat.S_IMODE(mode):04o}"
        return f"one that {_user(os.geteuid())} may not read and write ({owner}: chown or chmod it)"
    return ""


def _named(mode: int) -> str:
    kinds = {
        "a folder": stat.S_ISDIR,
        "a file": stat.S_ISREG,
        "a named pipe": stat.S_ISFIFO,
        "a socket": stat.S_ISSOCK,
    }
    return next((name for name, fits in kinds.items() if fits(mode)), "a device file")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _database_faults(path: Path, *, used: bool) -> list[str]:
    """Faults of SQLite's files; ``used``: whether there are artifacts, so that the folder had a database before."""
    wal = path.with_name(f"{path.name}-wal")
    if not path.exists() or not path.stat().st_size:
        if not used:
            return []  # the first start
        got = "an empty file" if path.exists() else "none"
        return [f"{path}: expected the database that knows the artifacts beside it, got {got}"]
    begins = read_file(path, len(_MAGIC))
    if begins != _MAGIC:
        return [f"{path}: expected a SQLite database, got something else ({begins[:8]!r}...)"]
    if wal.exists() and wal.stat().st_size and read_file(wal, 4) not in _WAL_MAGIC:
        put_damaged_away(path.parent, wal, "expected a log of SQLite, got something else")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            found = str(opened.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        found = str(error)
    return [] if found == "ok" else [f"{path}: expected a sound database, got: {' '.join(found.split())}"]
