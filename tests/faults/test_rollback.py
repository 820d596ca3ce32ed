"""A version made worse on purpose reaches only the share that tries it, and is rolled back by itself."""

import json

import pytest

from nightjar.wire.shares import is_canary
from tests.faults.world import Coordinator, Phones, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

NAMES = [f"phone-{number:02d}" for number in range(16)]
SHARE = 0.5
TABLES = f"""
[task.plan]
evaluation_share = 0.5

[rollout]
share = {SHARE}
devices = 2
hours = 1.0
"""


def shown(phones: Phones) -> dict[str, list[int]]:
    """The versions that each phone's keyboard had."""
    files = {name: phones.folder / name / "keyboard" for name in phones.names}
    kept = {name: path.read_text() for name, path in files.items() if path.exists()}
    return {name: [int(line) for line in text.split()] for name, text in kept.items() if text}


def version(coordinator: Coordinator, number: int) -> dict:
    return json.loads(coordinator.get(f"/api/v1/versions/{number}") or b"{}")


def test_a_bad_version_reaches_only_its_share_and_is_rolled_back_by_itself(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, more=TABLES)
    phones = Phones(tmp_path / "phones", NAMES, mosquitto.port, coordinator.url, module="tests.faults.canary_phones")
    phones.hold("poisoned")
    with coordinator, phones:
        coordinator.wait_until(lambda state: len(state["versions"]) > 1, "the bad version")
        phones.let_go("poisoned")
        stage = lambda number: version(coordinator, number).get("stage")  # noqa: E731
        wait_until(lambda: stage(1) == "rolled-back", lambda: f"{version(coordinator, 1)}\n{coordinator.log()[-3000:]}")

        bad = version(coordinator, 1)
        assert "top-1 recall" in bad["reason"]
        assert "is 1.9 %, with a version before it 19.9 %" in bad["reason"]
        assert bad["federated"]["top1_before"]["p50"] == pytest.approx(0.02, abs=0.01)
        assert "version_rolled_back" in coordinator.log()
        assert bad["reason"] in coordinator.log()

        among = {name for name in NAMES if is_canary(name, bad["manifest"], SHARE)}
        reached = {name for name, versions in shown(phones).items() if 1 in versions}
        assert reached
        assert reached <= among
        wait_until(
            lambda: all(shown(phones)[name][-1] != 1 for name in reached), lambda: f"back again: {shown(phones)}"
        )
        # Learning goes on from the former version, and the next one is good.
        wait_until(lambda: stage(2) == "current", lambda: f"{version(coordinator, 2)}\n{coordinator.log()[-3000:]}")
        assert version(coordinator, 2)["lineage"]["parent"] == 0
        assert version(coordinator, 0)["stage"] == "superseded"
        wait_until(
            lambda: all(shown(phones).get(name, [0])[-1] >= 2 for name in NAMES),
            lambda: f"the next one: {shown(phones)}",
        )
        assert {name for name, versions in shown(phones).items() if 1 in versions} <= among
