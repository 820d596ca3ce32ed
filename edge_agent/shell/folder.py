"""The agent's folder: its owner's alone, and of one agent at a time.

The file ``lock`` in it is locked while an agent runs, and holds the number of its process.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import structlog

from host.locks import holder_of, take_lock
from wire.errors import ConfigError

LOCK = "lock"
DATABASE = "agent.db"
ARTIFACTS = "artifacts"

log = structlog.get_logger()


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Make the folder, keep others from reading it, and keep a second agent out of it.

    Two agents of one name would throw each other off the broker.

    Raises:
        ConfigError: it cannot be written, belongs to somebody else, or another agent runs in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _close_to_others(folder)
        lock = take_lock(folder / LOCK, says_who=True)
    except BlockingIOError as error:
        msg = f"data_dir: another agent is running in {folder}; stop it, or give this one a folder of its own"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"data_dir: expected a folder that can be written, got: {error}"
        raise ConfigError(msg) from error
    with lock:
        yield


def running_agent(folder: Path) -> int | None:
    """The process number of the agent that runs in a folder; None if none does.

    Raises:
        ConfigError: the folder is not ours to look into.
    """
    try:
        return holder_of(folder / LOCK)
    except OSError as error:
        msg = f"data_dir: expected the agent's folder, got: {error}"
        raise ConfigError(msg) from error


def _close_to_others(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid():
        msg = f"data_dir: {folder} belongs to another user ({found.st_uid}); give this agent a folder of its own"
        raise ConfigError(msg)
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        folder.chmod(0o700)
        log.warning("folder_closed_to_others", folder=str(folder), was=f"{mode:04o}", now="0700")
