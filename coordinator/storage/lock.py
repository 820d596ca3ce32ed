"""The lock of a data folder: one process at a time writes into it, and others are refused.

The kernel releases the lock when its holder exits for any reason. It works on one machine only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nightjar.host.files import private_folder
from nightjar.host.locks import take_lock
from nightjar.host.put_away import NO_FILE, put_away
from nightjar.wire.errors import ConfigError


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Lock the data folder, so that no other coordinator writes into it; the folder is created if missing.

    Raises:
        ConfigError: the folder cannot be used, or another process holds it.
    """
    path = data_dir / "lock"
    try:
        private_folder(data_dir)  # reports not yet aggregated reveal something about people
        if not path.is_file():
            put_away(data_dir, [path], NO_FILE)  # nobody can hold that; what is not there is left alone
        lock = take_lock(path)
    except BlockingIOError as error:
        msg = f"data_dir: another coordinator runs on {data_dir}; stop it, or give this one another folder"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"data_dir: cannot use the folder {data_dir}: {error.strerror or error}"
        raise ConfigError(msg) from error
    with lock:
        yield
