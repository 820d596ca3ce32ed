"""Processes that tests look for from outside, or end."""

import subprocess
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent to ask is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it goes between opening and reading
        return False


def end(process: subprocess.Popen, patience_s: float) -> None:
    """Ask a process to end and wait for it; one that does not is killed, so that none is left, and is a failure."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
