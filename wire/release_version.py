"""The order of the agent's versions. Standard library only: it also runs on devices outside of every release."""

from __future__ import annotations

from nightjar.wire.errors import RemoteProtocolError


def numbers(version: str) -> tuple[int, ...]:
    """Parse a version into numbers that sort in release order.

    Raises:
        RemoteProtocolError: the version is not ``major.minor.patch``.

    >>> numbers("0.10.0") > numbers("0.9.9")
    True
    """
    parts = version.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        msg = f"expected a version such as 1.2.3, got {version[:40]!r}"
        raise RemoteProtocolError(msg, code="version")
    return tuple(map(int, parts))
