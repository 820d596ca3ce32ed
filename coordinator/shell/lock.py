"""One process at a time writes into a data folder; others are refused, or stand by until it ends.

The kernel gives the lock back when its holder ends, however it ends. It holds on one machine only.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wire.errors import ConfigError


@contextmanager
def only_one(data_dir: Path, *, standing_by: bool = False) -> Iterator[None]:
    """Hold the data folder, so that no other coordinator writes into it; the folder is made if it is not there.

    Args:
        data_dir: the folder.
        standing_by: wait for as long as another process holds it, instead of raising.

    Raises:
        ConfigError: the folder cannot be used, or another process holds it.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)  # reports that wait tell something about people
        lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        msg = f"data_dir: cannot use the folder {data_dir}: {error.strerror or error}"
        raise ConfigError(msg) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if standing_by else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        remedy = "stop it, give this one another folder, or let it wait (serve --standby)"
        msg = f"data_dir: another coordinator runs on {data_dir}; {remedy}"
        raise ConfigError(msg) from error
    try:
        yield
    finally:
        os.close(lock)
