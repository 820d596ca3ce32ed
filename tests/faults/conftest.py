"""Fault tests on the real thing: a real broker, a real coordinator, real agents, real signals."""

import pytest

from nightjar.coordinator.mqtt.broker import find_mosquitto
from tests.faults.world import Mosquitto


@pytest.fixture
def mosquitto(tmp_path):
    """The broker as it ships."""
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    with Mosquitto(tmp_path / "broker") as broker:
        yield broker
