"""Puts away what is damaged in the agent's folder, before anybody uses it; for the database see ``mending``.

Of models each file is named by its hash, so that all of it is checked, which reads some megabytes. What is put away
comes again by itself: models and releases are fetched, and keys and times are made anew.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

from nightjar.edge_agent.keyboard.key import FILE as KEY
from nightjar.edge_agent.keyboard.key import PORT_FILE
from nightjar.edge_agent.shell.card_use import FILE as WRITTEN
from nightjar.edge_agent.shell.clock import FILE as CLOCK
from nightjar.edge_agent.shell.damage import FOUND
from nightjar.edge_agent.shell.folder import ARTIFACTS, LOCK, TYPED, in_use
from nightjar.edge_agent.shell.held_models import ANNOUNCED, CURRENT, FIRST
from nightjar.edge_agent.shell.kept_apart import KEPT_SETTINGS, PAUSED, DamagedFileError, unsealed
from nightjar.edge_agent.shell.mending import MENDED
from nightjar.edge_agent.shell.permissions import ASIDE, FOREIGN, is_accessible
from nightjar.edge_agent.shell.suggester import FOLDER as SOCKETS
from nightjar.host.files import PARTIAL, read_file
from nightjar.host.locks import is_held
from nightjar.host.put_away import NO_FILE, NO_FOLDER, put_away

RELEASE, METADATA = "release", "metadata"
_UNFINISHED = (PARTIAL, MENDED)
"""Ends of the names of files that are being written; a folder there would keep the file from being written."""
_HASH = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(rb"[A-Za-z0-9_-]{32,}")


def put_damaged_away(data_dir: Path, wall_s: float | None) -> None:
    """Put away the damaged files of an agent's folder; the agent holds its lock.

    ``wall_s`` is the time to name in the notes, if it is trusted.

    Raises:
        OSError: the folder cannot be written.
    """
    for name in (CLOCK, KEY, PORT_FILE, PAUSED, TYPED, FOUND, WRITTEN):
        _check(data_dir, data_dir / name, _key_fault if name == KEY else _read_fault, wall_s)
    _check(data_dir, data_dir / KEPT_SETTINGS, _seal_fault, wall_s)
    for path in _inside(data_dir):
        if path.name.endswith(_UNFINISHED) and not path.is_file():
            put_away(data_dir, [path], NO_FILE, wall_s)
    for name in (ARTIFACTS, RELEASE, SOCKETS):
        if _there(data_dir / name) and not (data_dir / name).is_dir():
            put_away(data_dir, [data_dir / name], NO_FOLDER, wall_s)
    put_models_away(data_dir / ARTIFACTS, wall_s)
    for path in _inside(data_dir / RELEASE):
        if path.name == METADATA:
            _put_metadata_away(data_dir, path, wall_s)
        else:
            _check(data_dir, path, _read_fault, wall_s)


def put_lock_away(data_dir: Path) -> None:
    """Put away what cannot be locked, before the folder is; nobody can hold that.

    Raises:
        ConfigError: an agent of another user holds it.
        OSError: the folder cannot be written.
    """
    lock = data_dir / LOCK
    if _there(lock) and not lock.is_file():
        put_away(data_dir, [lock], NO_FILE)
    elif _there(lock) and not is_accessible(lock):
        if is_held(lock):
            raise in_use(data_dir)
        put_away(data_dir, [lock], FOREIGN)


def put_models_away(artifacts: Path, wall_s: float | None) -> None:
    """Put away the files of models that do not have the hash that names them.

    Raises:
        OSError: the folder cannot be written.
    """
    for path in _inside(artifacts):
        if _HASH.fullmatch(path.name):
            _check(artifacts.parent, path, _hash_fault, wall_s)
        elif path.name in {CURRENT, ANNOUNCED, FIRST}:
            _check(artifacts.parent, path, _pointer_fault, wall_s)
        else:
            _check(artifacts.parent, path, _read_fault, wall_s)


def _put_metadata_away(data_dir: Path, metadata: Path, wall_s: float | None) -> None:
    """Put away metadata of releases that is no metadata; what it says is verified by who uses it."""
    if not metadata.is_dir():
        put_away(data_dir, [metadata], NO_FOLDER, wall_s)
        return
    files = [path for path in sorted(metadata.rglob("*")) if not path.is_dir()]
    bad = [fault for path in files if (fault := _metadata_fault(path)) and _there(path)]  # or it has gone meanwhile
    if bad:  # the parts belong together
        put_away(data_dir, [metadata], bad[0], wall_s)


def _check(data_dir: Path, path: Path, fault_of: Callable[[Path], str], wall_s: float | None) -> None:
    if not _there(path):
        return
    fault = fault_of(path) if path.is_file() else NO_FILE
    if fault:
        put_away(data_dir, [path], fault, wall_s)


def _read_fault(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        return _unreadable(error)
    return ""


def _hash_fault(path: Path) -> str:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return _unreadable(error)
    return "" if digest == path.name else f"it does not have the hash that names it, but {digest[:12]}"


def _pointer_fault(path: Path) -> str:
    return _content_fault(path, lambda data: _HASH.fullmatch(data.decode("ascii").strip()))


def _key_fault(path: Path) -> str:
    return _content_fault(path, lambda data: _KEY.fullmatch(data))


def _seal_fault(path: Path) -> str:
    return _content_fault(path, _is_sealed)


def _is_sealed(data: bytes) -> bool:
    try:
        unsealed(data)
    except DamagedFileError:
        return False
    return True


def _metadata_fault(path: Path) -> str:
    return _content_fault(path, lambda data: isinstance(json.loads(data), dict))


def _content_fault(path: Path, sound: Callable[[bytes], object]) -> str:
    try:
        data = read_file(path)
    except OSError as error:
        return _unreadable(error)
    try:
        return "" if sound(data) else "it does not hold what was written there"
    except ValueError:
        return "it does not hold what was written there"


def _unreadable(error: OSError) -> str:
    if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}:
        raise error
    return f"it cannot be read: {error.strerror}"


def _there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _inside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if ASIDE not in path.name) if folder.is_dir() else []
