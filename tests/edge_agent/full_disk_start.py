"""A start of an agent on a disk that is full from its n-th write on, for every n; then one when there is room again.

Run as a program with ``power_cut.c`` preloaded. Each start on the full disk is a fork. Prints the number of starts, and
for each that did not end in words, or lost something, the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import structlog

from nightjar.edge_agent.config import DATA_DIR_VARIABLE
from nightjar.edge_agent.enrolment.identity import COPY, CREDENTIAL, FOLDER, IDENTITY
from nightjar.edge_agent.shell.folder import DATABASE
from nightjar.edge_agent.shell.kept_apart import KEPT_SETTINGS
from nightjar.host.put_away import notes
from nightjar.wire.errors import NightjarError
from tests.edge_agent.any_damage import AS_BEFORE, NAMED, damage, sound_device, start

DAMAGES: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (("agent.toml", "random"),),
    ((f"data/{DATABASE}", "random"),),
    ((f"data/{DATABASE}", "gone"), (f"data/{DATABASE}-wal", "other file")),
    ((f"data/{FOLDER}/{IDENTITY}", "zeroed"), (f"data/{FOLDER}/{CREDENTIAL}", "gone")),
    ((f"data/{FOLDER}/{COPY}", "flipped"), (f"data/{KEPT_SETTINGS}", "empty")),
    ((f"data/artifacts/{NAMED}", "flipped"), ("data/keyboard.key", "empty"), ("data/release", "empty")),
)
TOLD, BUG = 3, 9


def begin(folder: Path) -> object:
    return start(folder / "agent.toml", {DATA_DIR_VARIABLE: str(folder / "data")})


def on_a_full_disk(folder: Path, writes: int) -> tuple[int, bool]:
    """How a start ended that finds room for so many writes, and whether it wanted more."""
    library = ctypes.CDLL(None)
    child = os.fork()
    if not child:
        status = BUG
        try:
            library.power_cut_fill(ctypes.c_long(writes))
            begin(folder)
            status = 0
        except NightjarError as error:
            status = TOLD if str(error) else BUG
        except BaseException:
            traceback.print_exc()
        os._exit(status | (16 if library.power_cut_written() > writes else 0))
    _, ended = os.waitpid(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    return (status & 15 if status >= 0 else BUG), status < 0 or bool(status & 16)


def faults(sound: Path, damages: tuple[tuple[str, str], ...]) -> tuple[int, list[str]]:
    """How many starts there were, and what was wrong after them."""
    found: list[str] = []
    writes, more = 0, True
    while more:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "d"
            shutil.copytree(sound, folder)
            for file, kind in damages:
                damage(folder, file, kind, 1)
            status, more = on_a_full_disk(folder, writes)
            where = f"{damages}, full from write {writes} on"
            if status == BUG:
                found.append(f"{where}: it did not end in words")
            try:
                if begin(folder) != AS_BEFORE:
                    found.append(f"{where}: it is not what it was")
                if damages and not notes(folder / "data"):
                    found.append(f"{where}: nothing says what was damaged")
            except Exception as error:
                found.append(f"{where}: it does not start when there is room: {type(error).__name__}: {error}")
        writes += 1
    return writes, found


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    total, found = 0, []
    with contextlib.redirect_stdout(sys.stderr), sound_device() as sound:
        for damages in DAMAGES:
            number, wrong = faults(sound, damages)
            total += number
            found += wrong
    print(total)
    print("\n".join(found))


if __name__ == "__main__":
    main()
