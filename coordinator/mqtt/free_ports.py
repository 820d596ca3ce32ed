"""Ports for servers that are about to start, below the kernel's ephemeral ports (from 32768 on).

One of the latter can be taken between the look and the use, or while its server is being started again; and a client
that calls there before the server listens may be given the same port for itself, and be connected to itself.
"""

from __future__ import annotations

import contextlib
import random
import socket

LOWEST, HIGHEST = 10_000, 32_000


def free_ports(count: int) -> list[int]:
    """Different ones of the loopback that nobody uses at this moment."""
    any_of = random.SystemRandom()
    found: set[int] = set()
    while len(found) < count:
        port = any_of.randint(LOWEST, HIGHEST)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return list(found)
