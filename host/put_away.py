"""Puts damaged files away, so that a program goes on without them and a person can look at them.

They lie in ``put-away`` in the data folder, each beside a text that says what was wrong. A disk that goes bad damages
a file each day, so the oldest are deleted when there are too many or too large ones. Standard library only.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
from collections.abc import Iterable
from pathlib import Path

from nightjar.host.files import PARTIAL, private_folder, read_file, replace_file, sync_folder

FOLDER = "put-away"
NO_FILE, NO_FOLDER = "something that is no file is in its place", "something that is no folder is in its place"
NOTE = ".why"
"""Suffix of the text beside what was put away."""
_MOST_SAID, _MOST_DIGITS = 2, 9
MOST_FILES, MOST_NOTES, MOST_BYTES = 20, 40, 50_000_000
"""What is kept at most: enough to see a pattern, and some databases, whose text is at most 4 MB; and the newest."""


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
        kept = free_name(folder, path.name)
        with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile
            path.rename(kept)
            _write(kept, f"{path.name} was put away{_when(wall_s)}: {why}")
            sync_folder(path.parent)
    _tidy(folder)


def note(data_dir: Path, name: str, why: str, wall_s: float | None = None) -> None:
    """Note that a file was damaged, or gone, of which nothing is left to put away.

    Raises:
        OSError: it cannot be noted.
    """
    folder = _folder(data_dir)
    _write(free_name(folder, name), f"{name} was made anew{_when(wall_s)}: {why}")
    _tidy(folder)


def put_copy_away(data_dir: Path, name: str, data: bytes, why: str, wall_s: float | None = None) -> None:
    """Keep a copy of what is wrong with a file that is not ours to move; once for each thing that is wrong.

    Raises:
        OSError: the folder cannot be written.
    """
    if any(why in text for text in notes(data_dir)):
        return
    folder = _folder(data_dir)
    kept = free_name(folder, name)
    if data:
        replace_file(kept, data)
    _write(kept, f"{name} cannot be used{_since(wall_s)}: {why}")
    _tidy(folder)


def notes(data_dir: Path) -> list[str]:
    """What was put away and why, the newest last."""
    try:
        return [_note(path) for path in _kept(data_dir / FOLDER)]
    except OSError:
        return [f"{data_dir / FOLDER} cannot be read"]


def in_short(data_dir: Path) -> str:
    """The newest notes in one line, for the coordinator; empty if nothing was put away."""
    said = notes(data_dir)
    more = f"; and {len(said) - _MOST_SAID} before" if len(said) > _MOST_SAID else ""
    return "; ".join(reversed(said[-_MOST_SAID:])) + more


def _folder(data_dir: Path) -> Path:
    folder = data_dir / FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.rename(free_name(data_dir, "put-away-was"))
    private_folder(folder)
    return folder


def _when(wall_s: float | None) -> str:
    return "" if wall_s is None else datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime(" on %Y-%m-%d")


def _note(kept: Path) -> str:
    why = kept.with_name(kept.name + NOTE)
    if not why.exists():
        return f"{kept.name} was put away; why could not be noted: was the disk full?"
    return read_file(why).decode(errors="replace").strip()[:300]


def _kept(folder: Path) -> list[Path]:
    """What was put away or only noted, without the notes, the newest last."""
    names = {path.name.removesuffix(NOTE) for path in folder.iterdir()} if folder.is_dir() else set()
    return sorted((folder / name for name in names if not name.endswith(PARTIAL)), key=_order)


def _since(wall_s: float | None) -> str:
    return _when(wall_s).replace(" on ", " since ")


def _write(kept: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: what was put away says enough
        replace_file(kept.with_name(kept.name + NOTE), f"{text}\n".encode())


def free_name(folder: Path, name: str) -> Path:
    """A free name with the next number; by it they are ordered, because the clock may be wrong."""
    number = max((_number(path) for path in folder.iterdir()), default=0) + 1
    while any((folder / f"{name}.{number}{end}").exists() for end in ("", NOTE)):
        number += 1
    return folder / f"{name}.{number}"


def _number(path: Path) -> int:
    digits = path.name.removesuffix(NOTE).rpartition(".")[2]
    return int(digits) if digits.isdecimal() and len(digits) < _MOST_DIGITS else 0


def _order(path: Path) -> tuple[int, str]:
    return _number(path), path.name


def _tidy(folder: Path) -> None:
    """Delete the oldest of what is too much; their notes stay longer."""
    with contextlib.suppress(OSError):
        inside = list(reversed(_kept(folder)))
        used_bytes = 0
        for place, path in enumerate(path for path in inside if path.exists() or path.is_symlink()):
            used_bytes += _bytes(path)
            if place and (place >= MOST_FILES or used_bytes > MOST_BYTES):
                _delete(path)
        for path in inside[MOST_NOTES:]:
            path.with_name(path.name + NOTE).unlink(missing_ok=True)


def _bytes(path: Path) -> int:
    inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else (path,)
    return sum(each.lstat().st_size for each in inside if each.is_file())


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
