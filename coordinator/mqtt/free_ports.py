"""Finds free ports for servers, below the kernel's ephemeral ports (from 32768 on).

An ephemeral port can be taken between the check and its use, or while its server restarts. Also, a client that connects
before the server listens may get the same port as its own source port and connect to itself.
"""

from __future__ import annotations

import atexit
import random
import socket

LOWEST, HIGHEST = 10_000, 32_000
_LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether nothing listens on this TCP port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: one may have just ended here
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True


def reserve(port: int) -> bool:
    """Take a TCP port of the loopback address for a server that starts later, until this process ends.

    What is held is the UDP port of the same number, which none of our servers uses: of two processes that look at the
    same time, one finds the port free.

    Returns:
        Whether it is free, and no other process has reserved it.
    """
    if not is_free(port):
        return False
    held = socket.socket(type=socket.SOCK_DGRAM)
    try:
        held.bind((_LOOPBACK, port))
    except OSError:
        held.close()
        return False
    atexit.register(held.close)
    return True


def free_ports(count: int) -> list[int]:
    """Reserve any free ports of the loopback address, all different."""
    any_of = random.SystemRandom()
    ports: list[int] = []
    while len(ports) < count:
        port = any_of.randint(LOWEST, HIGHEST)
        if reserve(port):
            ports.append(port)
    return ports
