"""Makes everything in the agent's folder its own again, before anybody uses it.

A command that a person ran as root, or a backup that was played back, leaves files that the agent may not write, or
not even read. What is ours gets its permissions back; what can be read is copied; the rest is put away. What goes
meanwhile, such as the log of a database that a command closes, is passed over.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import structlog

from nightjar.host.files import read_file, replace_file, sync_folder
from nightjar.host.put_away import FOLDER as PUT_AWAY
from nightjar.host.put_away import free_name, note, put_away

_FILE, _FOLDER = os.R_OK | os.W_OK, os.R_OK | os.W_OK | os.X_OK
_NEEDED = {_FILE: stat.S_IRUSR | stat.S_IWUSR, _FOLDER: stat.S_IRWXU}
FOREIGN = "it belongs to another user and cannot be read"
ASIDE = ".of-another-user"
"""Ends the name of a folder that is neither ours nor readable; it cannot be moved out of its own folder."""

log = structlog.get_logger()


def take_back(data_dir: Path, wall_s: float | None) -> None:
    """Make the files and folders in an agent's folder accessible to it; the agent holds its lock.

    ``wall_s`` is the time to name in the notes, if it is trusted.

    Raises:
        OSError: the folder cannot be written.
    """
    for folder, folders, files in os.walk(data_dir):  # from above: a folder that was mended is walked
        folders[:] = [name for name in folders if ASIDE not in name]
        for path in [Path(folder, name) for name in folders]:
            with contextlib.suppress(FileNotFoundError):
                if not path.is_symlink() and not is_accessible(path, _FOLDER):
                    _move_aside(data_dir, path, wall_s)
                    folders.remove(path.name)
        if Path(folder).name == PUT_AWAY:
            folders.clear()
            continue
        for path in (Path(folder, name) for name in files):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(path.lstat().st_mode) and not is_accessible(path):
                    _take_file(data_dir, path, wall_s)


def is_accessible(path: Path, how: int = _FILE) -> bool:
    """Whether we may read and write; what is ours is made so."""
    if os.access(path, how):
        return True
    with contextlib.suppress(OSError):
        path.chmod(stat.S_IMODE(path.stat().st_mode) | _NEEDED[how])
        log.warning("permissions_mended", path=path.name)
    return os.access(path, how)


def _take_file(data_dir: Path, path: Path, wall_s: float | None) -> None:
    if not os.access(path, os.R_OK):
        put_away(data_dir, [path], FOREIGN, wall_s)
        return
    replace_file(path, read_file(path, -1))
    note(data_dir, path.name, "it belonged to another user", wall_s)


def _move_aside(data_dir: Path, path: Path, wall_s: float | None) -> None:
    aside = free_name(path.parent, path.name + ASIDE)
    path.rename(aside)
    sync_folder(path.parent)
    note(data_dir, path.name, f"it belongs to another user, and is {aside.name} now", wall_s)
