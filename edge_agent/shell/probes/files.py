"""Readers for small files of ``/sys`` and ``/proc``: an unreadable file counts as empty and never raises."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str:
    """The file's text without surrounding whitespace; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):
        return ""


def number(path: Path) -> int | None:
    """The integer in a file; None if there is none."""
    try:
        return int(text(path))
    except ValueError:
        return None
