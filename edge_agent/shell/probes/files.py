"""Small files of ``/sys`` and ``/proc``: what cannot be read is nothing, never an exception."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str:
    """The text without blanks around it; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):
        return ""


def number(path: Path) -> int | None:
    """The whole number in a file; None if there is none."""
    try:
        return int(text(path))
    except ValueError:
        return None
