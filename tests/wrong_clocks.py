"""Wall clocks of processes that are wrong by as much as a test says, also while the processes run.

The library of ``wrong_clock.c`` is preloaded. libfaketime would leave it to the machine whether the kernel's clock
counts as synchronised.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("wrong_clock.c")


def wrong_clock_library(folder: Path) -> Path:
    """``wrong_clock.c`` as a library to preload."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the library that sets clocks wrong: apt install gcc libc6-dev")
    library = folder / "wrong_clock.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl", "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@dataclass
class ProcessClock:
    """The wall clock of a process and its children.

    Attributes:
        library: that is preloaded.
        path: of the file that they read.
        synchronises: whether the kernel says that it is synchronised while it is right.
    """

    library: Path
    path: Path
    synchronises: bool = False

    def __post_init__(self) -> None:
        self.set(0.0)

    def set(self, wrong_by_s: float) -> None:
        """Let it be wrong by so much from now on."""
        data = struct.pack("dd", wrong_by_s, float(self.synchronises and not wrong_by_s))
        if self.path.exists():
            with self.path.open("r+b") as file:
                file.write(data)
        else:
            self.path.write_bytes(data)

    @property
    def environment(self) -> dict[str, str]:
        """What a process is started with."""
        return {**os.environ, "LD_PRELOAD": str(self.library), "NIGHTJAR_TEST_WRONG_CLOCK": str(self.path)}
