"""Both brokers that the coordinator starts by itself, as parameters of a test."""

import pytest

from coordinator.shell.broker import find_mosquitto

KINDS = [
    "embedded",
    pytest.param(
        "mosquitto", marks=pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
    ),
]
