"""Devices refuse what another key signed, keep what they have, and go on when the right one is back."""

import pytest

from nightjar.coordinator.storage.signing_key import KEY_FILE, KEYS_FILE, load_signer
from tests.faults.test_rollback import shown
from tests.faults.world import Coordinator, Phones, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

NAMES = [f"phone-{number:02d}" for number in range(4)]


def test_a_coordinator_with_another_key_trains_nobody(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, more="[task.plan]\nevaluation_share = 0.5")
    phones = Phones(tmp_path / "phones", NAMES, mosquitto.port, coordinator.url, module="tests.faults.canary_phones")
    with phones:
        with coordinator:
            coordinator.wait_until(lambda state: len(state["versions"]) > 1, "a version")
            wait_until(lambda: len(shown(phones)) == len(NAMES), lambda: f"a model on each keyboard: {shown(phones)}")
        ours = {path: path.read_bytes() for path in (coordinator.data / KEY_FILE, coordinator.data / KEYS_FILE)}
        for path in ours:
            path.unlink()
        load_signer(coordinator.data)  # by itself a coordinator that has versions makes no other key
        with coordinator:
            before = len(coordinator.wait_until(lambda state: state.get("versions"), "the page")["versions"])
            state = coordinator.wait_until(
                lambda state: state["counters"]["dropouts"].get("untrusted", 0) >= 2, "devices that refuse"
            )
            assert len(state["versions"]) <= before + 1  # a round that was nearly over when the key was changed
            reached = {name: max(versions) for name, versions in shown(phones).items()}
            phones.wait_for("coordinator_key_refused")
        for path, data in ours.items():
            path.write_bytes(data)
        with coordinator:
            count = len(coordinator.wait_until(lambda state: state.get("versions"), "the page")["versions"])
            coordinator.wait_until(lambda state: len(state["versions"]) > count, "learning goes on")
            wait_until(
                lambda: all(shown(phones)[name][-1] > reached[name] for name in NAMES), lambda: f"{shown(phones)}"
            )
