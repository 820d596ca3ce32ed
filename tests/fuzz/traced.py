"""Runs a module while each line of ours that it executes is marked in a file, which another process reads.

``python -m tests.fuzz.traced FILE MODULE ARGUMENTS``. The file is a map as AFL has it, one byte a mark. A function that
was called often is not watched any longer, so that the process soon runs nearly as fast as without.
"""

import faulthandler
import mmap
import runpy
import signal
import sys
import threading
import zlib
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SIZE = 1 << 18
OURS = tuple(f"/nightjar/{package}/" for package in ("coordinator", "edge_agent", "wire", "models"))
WATCHED_CALLS = 200


class Marks:
    """The map, and what to do at each call and line."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._begun: dict[CodeType, int] = {}
        self._calls: Counter[CodeType] = Counter()

    def call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """Watch the lines of a function of ours."""
        code = frame.f_code
        begin = self._begun.get(code)
        if begin is None:
            ours = any(part in code.co_filename for part in OURS)
            begin = self._begun[code] = zlib.crc32(code.co_filename.encode()) if ours else -1
        if begin < 0:
            return None
        self._calls[code] += 1
        return None if self._calls[code] > WATCHED_CALLS else self.line

    def line(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """Mark a line."""
        self._map[(self._begun[frame.f_code] + 7919 * frame.f_lineno) % SIZE] = 1
        return self.line


def main() -> None:
    """Run the module as its own program."""
    _, path, module, *arguments = sys.argv
    marks = Marks(Path(path))
    faulthandler.register(signal.SIGUSR1)  # who finds it silent wants to know what it does
    sys.argv = [module, *arguments]
    threading.settrace(marks.call)
    sys.settrace(marks.call)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
