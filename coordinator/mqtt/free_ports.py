"""Finds free ports for servers, below the kernel's ephemeral ports (from 32768 on).

An ephemeral port can be taken between the check and its use, or while its server restarts. Also, a client that connects
before the server listens may get the same port as its own source port and connect to itself.
"""

from __future__ import annotations

import contextlib
import random
import socket

LOWEST, HIGHEST = 10_000, 32_000


def free_ports(count: int) -> list[int]:
    """Distinct ports of the loopback address that are free at the moment."""
    any_of = random.SystemRandom()
    ports: set[int] = set()
    while len(ports) < count:
        port = any_of.randint(LOWEST, HIGHEST)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)
