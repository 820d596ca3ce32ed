"""Locates the cache of downloads, root file systems and twins: ``NIGHTJAR_CACHE``, else the user's cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The cache folder, which may not exist yet.

    >>> cache_folder({"XDG_CACHE_HOME": "/home/ada/.cache"}).as_posix()
    '/home/ada/.cache/nightjar'
    """
    if named := environment.get("NIGHTJAR_CACHE"):
        return Path(named).absolute()
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "nightjar"
