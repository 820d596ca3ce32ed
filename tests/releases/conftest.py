import pytest

from tests.releases.world import Coordinator, Device, Owner


@pytest.fixture
def owner(tmp_path):
    return Owner(tmp_path / "owner")


@pytest.fixture
def coordinator(tmp_path):
    with Coordinator(tmp_path / "coordinator").served() as coordinator:
        yield coordinator


@pytest.fixture
def device(tmp_path, owner, coordinator):
    return Device(tmp_path / "device", owner, coordinator.url)
