"""Writes numbers of bytes, everywhere in the same way: in SI units, as disks and cards are sold, with one decimal."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(size_bytes: float) -> str:
    """A number of bytes in words.

    >>> size_text(950), size_text(1490), size_text(3000), size_text(999_960), size_text(31_914_983_424)
    ('950 B', '1.5 kB', '3.0 kB', '1.0 MB', '31.9 GB')
    """
    size, unit = float(size_bytes), 0
    while size >= 999.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
