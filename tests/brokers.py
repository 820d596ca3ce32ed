"""Both brokers that the coordinator starts by itself, as parameters of a test, and ports for them."""

import socket

import pytest

from coordinator.shell.broker import find_mosquitto

KINDS = [
    "embedded",
    pytest.param(
        "mosquitto", marks=pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
    ),
]


def free_ports(count: int) -> list[int]:
    """Different ones, free a moment ago."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
