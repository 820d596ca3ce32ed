"""This checkout's coordinator with agents of an earlier commit, and the reverse: rounds, and a release of the agent."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from nightjar.wire.messages import Status, decode, encode
from tests.faults.world import ROOT, Coordinator, Phones, accepted_by_receipt
from tests.releases.world import TO_ALL, Device, Owner
from tests.releases.world import Coordinator as ReleaseServer
from tests.skips import NO_HISTORY

pytestmark = [pytest.mark.broker, pytest.mark.slow]

FORMER = "f3b79ff1"
"""Before everything was imported as ``nightjar``; its codecs end with topk-4."""


LOOK = """
import sys
from pathlib import Path
from types import SimpleNamespace
from tests.releases.world import Device
folder, metadata, url = sys.argv[1:]
print(Device(Path(folder), SimpleNamespace(metadata=Path(metadata)), url).look().text)
"""
SERVE = """
import sys
from pathlib import Path
from tests.releases.world import TO_ALL, Coordinator, Owner
folder = Path(sys.argv[1])
owner = Owner(folder / "owner")
with Coordinator(folder / "served").served() as coordinator:
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = TO_ALL
    print(coordinator.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def former(tmp_path_factory):
    """The tree of the former commit."""
    tree = tmp_path_factory.mktemp("former") / FORMER
    made = subprocess.run([ROOT / "scripts/former_version.sh", FORMER, tree], capture_output=True, text=True)
    if made.returncode == 3:
        pytest.skip(f"{NO_HISTORY}: {made.stderr.strip()}")
    assert made.returncode == 0, made.stderr
    return tree


def of(tree, process):
    """The process with the code of another checkout."""
    process.tree = tree
    return process


def in_former(tree, program, *arguments, **pipes):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, stdout=subprocess.PIPE, text=True, **pipes
    )


@pytest.mark.parametrize("codec", ["dense-f32", "topk-4"])
def test_agents_of_before_train_for_this_coordinator(tmp_path, mosquitto, former, codec):
    with Coordinator(tmp_path / "c", mosquitto.port, codec=codec, goal=2, rounds=2) as coordinator:
        coordinator.wait_healthy()
        with of(former, Phones(tmp_path / "p", ["a", "b"], mosquitto.port, coordinator.url)) as phones:
            coordinator.wait_done()
        rounds = [json.loads(coordinator.get(f"/api/v1/rounds/{number}")) for number in (1, 2)]
    assert [(each["phase"], each["version"]) for each in rounds] == [("committed", 1), ("committed", 2)]
    assert "Traceback" not in coordinator.log() + phones.log()


def test_an_agent_of_before_is_told_that_it_lacks_the_codec(tmp_path, mosquitto, former):
    with Coordinator(tmp_path / "c", mosquitto.port, codec="sampled-4", goal=2, rounds=1) as coordinator:
        coordinator.wait_healthy()
        with (
            of(former, Phones(tmp_path / "p", ["former"], mosquitto.port, coordinator.url)) as phones,
            Phones(tmp_path / "q", ["a", "b"], mosquitto.port, coordinator.url),
        ):
            phones.wait_for("this agent is too old for the codec sampled-4")
            coordinator.wait_done()
    assert "Traceback" not in coordinator.log() + phones.log()


def test_agents_of_this_checkout_train_for_a_coordinator_of_before(tmp_path, mosquitto, former):
    model = "from pathlib import Path; from tests.coordinator.model_folder import write_model; write_model(Path('{}'))"
    (tmp_path / "c").mkdir()
    in_former(former, model.format(tmp_path / "c/model")).communicate(timeout=100)
    coordinator = of(former, Coordinator(tmp_path / "c", mosquitto.port, goal=2, rounds=2))
    coordinator._command[2] = "coordinator"
    with coordinator:
        coordinator.wait_healthy()
        with Phones(tmp_path / "p", ["a", "b"], mosquitto.port, coordinator.url) as phones:
            coordinator.wait_done()
    assert accepted_by_receipt(phones) == {(number, device) for number in (1, 2) for device in "ab"}
    assert "Traceback" not in coordinator.log() + phones.log()


def test_a_coordinator_hears_of_a_release_that_an_agent_of_before_rolled_back_and_the_reverse_does_no_harm(former):
    say = "from wire.messages import *; print(encode(Status(online=True, taken_back='0.2.0: not up')).decode())"
    said, _ = in_former(former, say).communicate(timeout=100)
    assert decode("status", said.encode()) == Status(online=True, rolled_back="0.2.0: not up")
    hear = "import sys; from wire.messages import *; print(decode('status', sys.argv[1].encode()).online)"
    now = encode(Status(online=True, rolled_back="0.2.0: not up")).decode()
    assert in_former(former, hear, now).communicate(timeout=100)[0] == "True\n"


def test_a_device_of_before_takes_a_release_of_this_coordinator(tmp_path, former):
    owner = Owner(tmp_path / "owner")
    with ReleaseServer(tmp_path / "coordinator").served() as server:
        server.add(owner, owner.release("0.2.0"))
        server.order = TO_ALL
        said, _ = in_former(former, LOOK, tmp_path / "device", owner.metadata, server.url).communicate(timeout=100)
    assert said == "release 0.2.0 was fetched and handed over\n"


def test_a_device_of_this_checkout_takes_a_release_of_a_coordinator_of_before(tmp_path, former):
    with in_former(former, SERVE, tmp_path, stdin=subprocess.PIPE) as serving:
        url = serving.stdout.readline().strip()
        device = Device(tmp_path / "device", SimpleNamespace(metadata=tmp_path / "owner/tuf/metadata"), url)
        assert device.look().text == "release 0.2.0 was fetched and handed over"
