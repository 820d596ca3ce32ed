"""Where downloads, root file systems and twins are kept: ``NIGHTJAR_CACHE``, else ``nightjar`` in the user's cache."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder; it may not be there yet.

    >>> cache_folder({"XDG_CACHE_HOME": "/home/ada/.cache"}).as_posix()
    '/home/ada/.cache/nightjar'
    """
    if named := environment.get("NIGHTJAR_CACHE"):
        return Path(named).absolute()
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "nightjar"


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Wait until no other process is in here with the same path; the kernel lets go when a process ends.

    Raises:
        OSError: the lock's file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
