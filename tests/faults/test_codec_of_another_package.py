"""A round with a codec that another package brings, in the coordinator and its agents; one device lacks the package."""

import json

import pytest

from tests.faults.world import Coordinator, Phones, wait_until
from tests.other_package import TIDES, write_package

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_a_round_with_a_codec_of_another_package_commits_and_a_device_without_it_is_told_why(
    tmp_path, mosquitto, monkeypatch
):
    names = ["with-1", "with-2", "without"]
    installed = str(write_package(tmp_path / "installed", *TIDES))
    monkeypatch.setenv("PYTHONPATH", installed)
    with Coordinator(tmp_path / "c", mosquitto.port, codec="signs", goal=2, rounds=1) as coordinator:
        coordinator.wait_healthy()
        monkeypatch.delenv("PYTHONPATH")
        with Phones(tmp_path / "p", names[2:], mosquitto.port, coordinator.url) as lacking:
            lacking.wait_for("it has no plug-in for the codec signs")
            # The status that says so may reach the coordinator later than the log of the device.
            page = "/tasks/keyboard"
            wanted = "1: it has no plug-in for the codec signs"
            wait_until(lambda: wanted in (coordinator.get(page) or b"").decode(), lambda: f"never {wanted!r} on {page}")
            monkeypatch.setenv("PYTHONPATH", installed)
            with Phones(tmp_path / "q", names[:2], mosquitto.port, coordinator.url):
                coordinator.wait_done()
        round_1 = json.loads(coordinator.get("/api/v1/rounds/1"))
        version_1 = json.loads(coordinator.get("/api/v1/versions/1"))
    assert (round_1["phase"], round_1["version"]) == ("committed", 1)
    assert [(seat["device"], seat["state"]) for seat in round_1["seats"]] == [(name, "reported") for name in names[:2]]
    assert version_1["lineage"]["codec"]["name"] == "signs"
    assert "Traceback" not in coordinator.log() + lacking.log()
