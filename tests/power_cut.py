"""What a power cut leaves of files: changes of files are recorded while they happen, then cut off after each of them.

The model is an adversary's. Data that was written and not flushed is lost, kept, or kept by half. Names that were made,
moved or removed are durable once their folder was flushed; before that any of them may be lost, each by itself.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from operator import or_
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("power_cut.c")
ROOT = SOURCE.parents[1]
_RECORDED = """
import ctypes, os
from pathlib import Path
{before}
record = os.open({record!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
cut = ctypes.CDLL(None)
cut.power_cut_record(record)
{action}
cut.power_cut_record(-1)
"""


def power_cut_library(folder: Path) -> Path:
    """``power_cut.c`` as a library to preload."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the library that ends the process: apt install gcc libc6-dev")
    library = folder / "power_cut.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@dataclass(frozen=True)
class Change:
    """One line of the record."""

    kind: str
    path: str
    mode: int
    other: str


@dataclass
class Disk:
    """Files by what is certain of them and by what is not.

    Sizes stand for contents, because each file here is written from its beginning to its end, once.
    """

    names: dict[str, int]
    durable: dict[int, int]
    written: dict[int, int]
    moving: list[tuple[str, str, int | None]] = field(default_factory=list)
    now: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> "Disk":
        """As it is, all of it durable."""
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        names = {str(path): number for number, path in enumerate(files)}
        sizes = {number: path.stat().st_size for number, path in enumerate(files)}
        return cls(names, dict(sizes), dict(sizes), now=dict(names))

    def apply(self, change: Change) -> None:
        """Let one change happen."""
        path = change.path
        match change.kind:
            case "open" if path not in self.now:
                file = max([*self.durable, -1]) + 1
                self.durable[file] = self.written[file] = 0
                self._name(path, file)
            case "open" if change.other:
                self.durable[self.now[path]] = self.written[self.now[path]] = 0
            case "write":
                self.written[self.now[path]] += int(change.other)
            case "fsync" if path in self.now:
                self.durable[self.now[path]] = self.written[self.now[path]]
            case "fsync":
                for folder, name, file in [each for each in self.moving if each[0] == path]:
                    self.moving.remove((folder, name, file))
                    _put(self.names, name, file)
            case "rename":
                self._name(change.other, self.now[path])
                self._name(path, None)
            case "unlink":
                self._name(path, None)

    def _name(self, path: str, file: int | None) -> None:
        self.moving.append((str(Path(path).parent), path, file))
        _put(self.now, path, file)

    def after_a_cut(self, path: Path) -> set[tuple[int, int] | None]:
        """What may be found at a path: which file, and how much of it; None is no file."""
        may = set()
        for kept in product([True, False], repeat=len(self.moving)):
            names = dict(self.names)
            for (_, name, file), is_kept in zip(self.moving, kept, strict=True):
                if is_kept:
                    _put(names, name, file)
            file = names.get(str(path))
            if file is None:
                may.add(None)
            else:
                least, most = self.durable[file], self.written[file]
                may |= {(file, least), (file, (least + most) // 2), (file, most)}
        return may


def _put(names: dict[str, int], name: str, file: int | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


@dataclass(frozen=True)
class Recorded:
    """A piece of a program, and the changes of files that it made."""

    before: Disk
    changes: tuple[Change, ...]

    def states(self, path: Path) -> Iterator[set[tuple[int, int] | None]]:
        """What a cut may leave at a path: before the first change, and after each of them."""
        disk = self.before
        yield disk.after_a_cut(path)
        for change in self.changes:
            disk.apply(change)
            yield disk.after_a_cut(path)

    def widest_modes(self) -> int:
        """Every permission that any file ever had."""
        return reduce(or_, (each.mode & 0o777 for each in self.changes if each.kind in ("open", "write", "chmod")), 0)


def recorded(folder: Path, library: Path, before: str, action: str) -> Recorded:
    """Run ``action`` in a process of its own in ``folder``, and record how it changes files there."""
    folder = folder.resolve()
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    disk = Disk.of(folder)
    record = library.with_name("record")
    record.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-B", "-c", _RECORDED.format(before=before, action=action, record=str(record))],
        cwd=folder,
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    changes = []
    for line in record.read_text().splitlines():
        kind, name, mode, other = line.split("\t")
        at = str(folder / name)
        if not at.startswith(str(folder)):
            continue
        changes.append(Change(kind, at, int(mode, 8), str(folder / other) if kind == "rename" else other))
    return Recorded(disk, tuple(changes))


def assert_old_or_new(run: Recorded, path: Path) -> None:
    """At each moment a cut leaves the file as it was before, or as it is after, in full; at the end the latter."""
    before, *during = run.states(path.resolve())
    (old,) = before
    (new,) = during[-1]
    assert new is not None
    assert new != old, "nothing was replaced"
    for number, found in enumerate(during):
        assert found <= {old, new}, f"after {run.changes[number]}: {found - {old, new}}"


def live(module: str, folder: Path, least: int, **environment: str) -> None:
    """Run a module that lives a life with a power cut at each of at least so many changes of a file; it complains of
    what it does not survive.
    """
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(power_cut_library(folder)), **environment},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *complaints, last = done.stdout.splitlines()
    assert complaints == [], done.stderr[-3000:]
    changes = re.fullmatch(r"(\d+) changes", last)
    assert changes is not None
    assert int(changes[1]) > least
