"""One process at a time writes into a data folder; others are refused.

The kernel gives the lock back when its holder ends, however it ends. It holds on one machine only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from host.files import private_folder
from host.locks import take_lock
from wire.errors import ConfigError


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data folder, so that no other coordinator writes into it; the folder is made if it is not there.

    Args:
        data_dir: the folder.

    Raises:
        ConfigError: the folder cannot be used, or another process holds it.
    """
    try:
        private_folder(data_dir)  # reports that wait tell something about people
        lock = take_lock(data_dir / "lock")
    except BlockingIOError as error:
        msg = f"data_dir: another coordinator runs on {data_dir}; stop it, or give this one another folder"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"data_dir: cannot use the folder {data_dir}: {error.strerror or error}"
        raise ConfigError(msg) from error
    with lock:
        yield
