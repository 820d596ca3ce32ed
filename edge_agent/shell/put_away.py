"""Puts damaged files away, so that the device goes on without them and a person can look at them.

They lie in ``put-away`` in the data folder, each beside a text that says what was wrong. Nothing there is deleted, but
for what a wipe and the age limit delete anywhere: typed text.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from nightjar.host.files import private_folder, replace_file, sync_folder

FOLDER = "put-away"
_WHY = ".why"
TYPED = ("agent.db", ".personal")
"""Parts of the names of files that have typed text in them, or what was learned from it."""
_MOST_SAID = 2


def put_away(data_dir: Path, paths: Iterable[Path], why: str, wall_s: float | None = None) -> None:
    """Move files or folders into ``put-away``, and note what is wrong with them; those that are not there are skipped.

    ``wall_s`` is the time to name in the note, if it is trusted.

    Raises:
        OSError: they cannot be moved.
    """
    there = [path for path in paths if path.exists() or path.is_symlink()]
    if not there:
        return
    folder = _folder(data_dir)
    for path in there:
        kept = _free(folder, path.name)
        path.rename(kept)
        _write(kept, f"{path.name} was put away{_when(wall_s)}: {why}")
        sync_folder(path.parent)


def note(data_dir: Path, name: str, why: str, wall_s: float | None = None) -> None:
    """Note that a file was damaged, or gone, of which nothing is left to put away.

    Raises:
        OSError: it cannot be noted.
    """
    _write(_free(_folder(data_dir), name), f"{name} was made anew{_when(wall_s)}: {why}")


def notes(data_dir: Path) -> list[str]:
    """What was put away and why, the newest last."""
    try:
        found = [(path.stat().st_mtime_ns, path.name, path) for path in (data_dir / FOLDER).glob(f"*{_WHY}")]
        return [path.read_text(encoding="utf-8", errors="replace").strip()[:300] for _, _, path in sorted(found)]
    except OSError:
        return [f"{data_dir / FOLDER} cannot be read"]


def in_short(data_dir: Path) -> str:
    """The newest notes in one line, for the coordinator; empty if nothing was put away."""
    said = notes(data_dir)
    more = f"; and {len(said) - _MOST_SAID} before" if len(said) > _MOST_SAID else ""
    return "; ".join(reversed(said[-_MOST_SAID:])) + more


def forget_typed(data_dir: Path, before_s: float | None = None) -> None:
    """Delete what was put away and has typed text, or what was learned from it; ``before_s``: only if older than that.

    The notes about it stay.
    """
    folder = data_dir / FOLDER
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        named = path.is_file() and not path.name.endswith(_WHY) and any(name in path.name for name in TYPED)
        if named and (before_s is None or path.stat().st_mtime < before_s):
            path.unlink(missing_ok=True)


def _folder(data_dir: Path) -> Path:
    folder = data_dir / FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.rename(_free(data_dir, "put-away-was"))
    private_folder(folder)
    return folder


def _when(wall_s: float | None) -> str:
    return "" if wall_s is None else datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime(" on %Y-%m-%d")


def _write(kept: Path, text: str) -> None:
    replace_file(kept.with_name(kept.name + _WHY), f"{text}\n".encode())


def _free(folder: Path, name: str) -> Path:
    number = 1
    while any((folder / f"{name}.{number}{end}").exists() for end in ("", _WHY)):
        number += 1
    return folder / f"{name}.{number}"
