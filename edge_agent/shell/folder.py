"""The agent's data folder: accessible to its owner only, and locked by one agent at a time.

The file ``lock`` in it is locked while an agent runs, and holds the agent's process id.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import structlog

from nightjar.host.locks import holder_of, take_lock
from nightjar.wire.errors import ConfigError

LOCK = "lock"
DATABASE = "agent.db"
ARTIFACTS = "artifacts"
TYPED = "typed"
"""File whose modification time says when somebody last typed."""

log = structlog.get_logger()


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Create the folder, close it to other users, and lock it against a second agent.

    Two agents with the same name would disconnect each other from the broker.

    Raises:
        ConfigError: the folder cannot be written, belongs to another user, or is in use by another agent.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _close_to_others(folder)
        lock = take_lock(folder / LOCK, says_who=True)
    except BlockingIOError as error:
        raise in_use(folder) from error
    except OSError as error:
        msg = f"data_dir: expected a folder that can be written, got: {error}"
        raise ConfigError(msg) from error
    with lock:
        yield


def in_use(folder: Path) -> ConfigError:
    """The error of an agent in whose folder another one runs."""
    return ConfigError(f"data_dir: another agent is running in {folder}; stop it, or give this one a folder of its own")


def running_agent(folder: Path) -> int | None:
    """The process id of the agent that runs in a folder; None if none runs.

    Raises:
        ConfigError: the folder cannot be read.
    """
    try:
        return holder_of(folder / LOCK)
    except OSError as error:
        msg = f"data_dir: expected the agent's folder, got: {error}"
        raise ConfigError(msg) from error


def _close_to_others(folder: Path) -> None:
    info = folder.stat()
    if info.st_uid != os.geteuid():
        msg = f"data_dir: {folder} belongs to another user ({info.st_uid}); give this agent a folder of its own"
        raise ConfigError(msg)
    mode = stat.S_IMODE(info.st_mode)
    if mode & 0o077:
        folder.chmod(0o700)
        log.warning("folder_closed_to_others", folder=str(folder), was=f"{mode:04o}", now="0700")
