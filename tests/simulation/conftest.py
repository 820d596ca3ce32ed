import shutil

import pytest

from nightjar.coordinator.mqtt.broker import find_mosquitto


@pytest.fixture
def run_folder(tmp_path_factory):
    """A folder for a whole run: models and databases, removed afterwards so that runs do not fill the disk."""
    folder = tmp_path_factory.mktemp("run")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def mosquitto():
    """Asks for the broker that a fresh machine may lack; CI installs it."""
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    return "mosquitto"
