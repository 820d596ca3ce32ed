"""Which user of this machine a loopback connection comes from, by the kernel's table of connections.

Source: proc(5), /proc/net/tcp and /proc/net/tcp6: addresses are in hexadecimal, in the machine's byte order.
"""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

_ESTABLISHED = "01"
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}


End = tuple[str, int]
"""One end of a connection: its address and port."""


def user_of_connection(theirs: End, ours: End) -> int | None:
    """The user id of the process on this machine that connected from ``theirs`` to ``ours``; None if it is unknown."""
    try:
        far, near = ipaddress.ip_address(theirs[0]), ipaddress.ip_address(ours[0])
        table = _TABLES[far.version].read_text(encoding="ascii")
    except (ValueError, OSError):
        return None
    return _found(table, f"{_written(far)}:{theirs[1]:04X}", f"{_written(near)}:{ours[1]:04X}")


def _found(table: str, local: str, remote: str) -> int | None:
    """The user of the connection between these ends; the first line of the table has the names of the columns.

    Both ends count: another user can connect from a port from which root has a connection to somewhere else, and a
    listener's connection that nobody accepted yet has its port, too, and counts as root's before Linux 6.18.
    """
    for line in table.splitlines()[1:]:
        fields = line.split()
        # A connection whose process has closed it counts as root's.
        if len(fields) > 7 and fields[1:4] == [local, remote, _ESTABLISHED]:
            return int(fields[7])
    return None


def _written(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address as the kernel writes it: words of four bytes, each in the machine's byte order."""
    words = (ip.packed[start : start + 4] for start in range(0, len(ip.packed), 4))
    return "".join((word[::-1] if sys.byteorder == "little" else word).hex() for word in words).upper()
