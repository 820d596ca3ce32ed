"""An authority's process for tests, which does what a file says: it signs, is dead, hangs or is slow."""

import io
import sys
import time
from pathlib import Path

from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.tls.authority_process import serve
from nightjar.host.children import answer_lines

SLOW_S = 2.5


def main(folder: Path, mood: Path) -> None:
    def answer(line: bytes) -> bytes:
        match mood.read_text():
            case "dead":
                sys.exit(1)
            case "hanging":
                while mood.read_text() == "hanging":
                    time.sleep(0.05)
                sys.exit(1)
            case "slow":
                time.sleep(SLOW_S)
        said = io.BytesIO()
        serve(io.BytesIO(line + b"\n"), said, folder, WallClock().now_s)
        return said.getvalue().rstrip()

    answer_lines(sys.stdin.buffer, sys.stdout.buffer, answer)


main(*map(Path, sys.argv[1:]))
