"""Which programs of a list run, for fields of toolkits that do not name theirs: Qt's.

Source: proc(5). A program that is not dumpable, such as KeePassXC, does not show its file to its own user.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Set
from pathlib import Path

_MOST_BYTES = 1 << 16
_COMM_BYTES = 15
"""The kernel cuts what a process calls itself."""
_ARGUMENTS = 2
"""An interpreter's script is its first argument that is no option, or the second after the value of one."""
_ENDS = (".py", ".pyw", ".pl", ".rb", ".js", ".sh", ".jar", ".exe")
"""Of files that another program runs; people name the program without them."""


def any_runs(programs: Set[str], proc: Path = Path("/proc")) -> bool:
    """Whether this user runs one of some programs, which are named as in the settings."""
    cut = frozenset(os.fsencode(program)[:_COMM_BYTES] for program in programs)
    try:
        (proc / "1" / "comm").read_bytes()  # another's: where that is hidden (hidepid), some of ours are
        with os.scandir(proc) as processes:
            return any(one.name.isdecimal() and _is_one_of(Path(one.path), programs, cut) for one in processes)
    except OSError:
        return True  # nobody can tell


def _is_one_of(process: Path, programs: Set[str], cut: Set[bytes]) -> bool:
    try:
        if process.stat().st_uid != os.geteuid():
            return False
        file = str((process / "exe").readlink()).removesuffix(" (deleted)")
    except PermissionError:
        file = ""  # what it was called as can be read all the same
    except OSError:
        return False  # it has ended
    if not programs.isdisjoint(_names_in(file)):
        return True
    with contextlib.suppress(OSError), (process / "cmdline").open("rb") as line:
        called, *arguments = os.fsdecode(line.read(_MOST_BYTES)).split("\0")
        given = [argument for argument in arguments if argument and not argument.startswith("-")][:_ARGUMENTS]
        if any(not programs.isdisjoint(_names_in(name)) for name in (called, *given)):
            return True
    with contextlib.suppress(OSError):
        return (process / "comm").read_bytes().removesuffix(b"\n").lower() in cut
    return False


def _names_in(path: str) -> Iterator[str]:
    """The program's names in the path of its file."""
    name = re.split(r"[/\\]", path)[-1].lower()
    yield name
    for end in _ENDS:
        if name.endswith(end):
            yield name.removesuffix(end)
