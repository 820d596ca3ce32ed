"""Which user of this machine a loopback connection comes from, by the kernel's table of connections.

Source: proc(5), /proc/net/tcp and /proc/net/tcp6: addresses are in hexadecimal, in the machine's byte order.
"""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

_ESTABLISHED = "01"
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}


def user_of_connection(address: str, port: int) -> int | None:
    """The user id of the process that connected from this address and port of this machine; None if it is unknown."""
    try:
        ip = ipaddress.ip_address(address)
        table = _TABLES[ip.version].read_text(encoding="ascii")
    except (ValueError, OSError):
        return None
    return _found(table, f"{_written(ip)}:{port:04X}")


def _found(table: str, local: str) -> int | None:
    """The user of the connection with this local end; the first line of the table has the names of the columns."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        # A connection whose process has closed it counts as root's.
        if len(fields) > 7 and fields[1] == local and fields[3] == _ESTABLISHED:
            return int(fields[7])
    return None


def _written(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address as the kernel writes it: words of four bytes, each in the machine's byte order."""
    words = (ip.packed[start : start + 4] for start in range(0, len(ip.packed), 4))
    return "".join((word[::-1] if sys.byteorder == "little" else word).hex() for word in words).upper()
