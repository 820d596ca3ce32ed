"""Both brokers that the coordinator starts by itself, as parameters of a test; and how a client leaves one."""

import paho.mqtt.client as paho
import pytest

from coordinator.shell.broker import find_mosquitto

KINDS = [
    "embedded",
    pytest.param(
        "mosquitto", marks=pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
    ),
]


def hang_up(client: paho.Client) -> None:
    """Disconnect, and close what paho would leave to the garbage collector.

    It keeps a pair of sockets. Who is in a cycle with it, as callbacks are, leaves the order of their end to chance: a
    ResourceWarning in whatever test the collector then comes by, or after the last one.
    """
    client.disconnect()
    client.loop_stop()
    client.reinitialise()
