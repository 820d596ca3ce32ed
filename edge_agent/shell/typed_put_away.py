"""Deletes typed text from what was put away, as a wipe and the age limit delete it anywhere."""

from __future__ import annotations

import contextlib
from pathlib import Path

from nightjar.host.put_away import FOLDER, NOTE

TYPED = ("agent.db", ".personal")
"""Parts of the names of files that have typed text in them, or what was learned from it."""


def forget_typed(data_dir: Path, before_s: float | None = None) -> None:
    """Delete what was put away and has typed text, or what was learned from it; ``before_s``: only if older than that.

    The notes about it stay.
    """
    folder = data_dir / FOLDER
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        named = path.is_file() and not path.name.endswith(NOTE) and any(name in path.name for name in TYPED)
        with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile
            if named and (before_s is None or path.stat().st_mtime < before_s):
                path.unlink()
