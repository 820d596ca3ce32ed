"""Processes that tests look for from outside."""

from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent to ask is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it goes between opening and reading
        return False
