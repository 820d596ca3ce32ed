"""What reaches the disk in a busy hour, in sectors: the agent stops at its limit, and never counts less than there is.

The agent's folder is an ext4 disk of its own. An hour is a minute here: what waits in memory is written after each
round, as it would be by itself where rounds are minutes apart.
"""

import hashlib
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from nightjar.edge_agent.core.card_budget import spent, today_mb
from nightjar.edge_agent.shell.card_use import read_budget
from nightjar.models.manifest import Artifact
from nightjar.wire.messages import Announcement, Receipt, Status, TrainingPlan, Verdict
from tests.edge_agent.fakes import assignment
from tests.edge_agent.loop_disk import loop_disk
from tests.edge_agent.test_agent_process import world

__all__ = ["world"]
pytestmark = [pytest.mark.broker, pytest.mark.tflite, pytest.mark.slow]

LIMIT_MB = 9.0
PLAN = TrainingPlan(learning_rate=0.1, clip_norm=1.0)
ORDERS = 300
MEGABYTE = 1e6


def version_of(exported, number, monkeypatch):
    """A version with other weights, served by the world's coordinator."""
    base = exported.model.manifest
    weights = np.frombuffer(exported.artifacts[base.weights.sha256], "<f4") + np.float32(number * 1e-4)
    file = Artifact.of(weights.tobytes())
    manifest = msgspec.structs.replace(base, version=number, weights=file, transfers=())
    name = hashlib.sha256(manifest.encode()).hexdigest()
    for sha256, data in ((file.sha256, weights.tobytes()), (name, manifest.encode())):
        monkeypatch.setitem(exported.artifacts, sha256, data)  # other tests have the same files
    return replace(exported.model, sha256=name, manifest=manifest)


@pytest.fixture
def card(tmp_path, world):
    """The disk, and an agent whose folder is on it."""
    _, make, _, _ = world
    with loop_disk(tmp_path) as disk:
        agent = make().day()
        agent.data = disk.folder / "data"
        text = agent.config.read_text().replace('"phone-data"', f'"{agent.data}"')
        agent.config.write_text(text.replace("density = 1.0\n", f"density = 1.0\nwritten_mb_per_day = {LIMIT_MB}\n"))
        yield disk, agent
        if agent.process is not None and agent.process.poll() is None:
            agent.kill()


def ends_within_the_limit(disk, agent):
    """Stop the agent; its count is not below the sectors, and these are within the limit."""
    assert agent.stop()[0] == 0
    sectors, counted = disk.written_bytes() / MEGABYTE, today_mb(read_budget(agent.data, None))
    print(f"in all {sectors:.2f} MB of sectors, counted {counted:.2f}")
    assert sectors <= counted <= LIMIT_MB


def goes_on_or_rests(coordinator):
    """Wait until it checks in again; returns why it does not if it says so."""
    while True:
        match coordinator.next("check-in", "status"):
            case Status(state="ineligible", reason=why) if "limits.written_mb_per_day" in why:
                return why
            case Status():
                pass
            case _:
                return ""


def test_a_busy_hour_stays_within_the_limit_in_sectors_and_is_told(world, card, monkeypatch):
    coordinator, _, exported, _ = world
    disk, agent = card
    agent.start()
    coordinator.next("check-in")
    begun, written, rounds, why = disk.written_bytes(), [], 0, ""
    while not why:
        rounds += 1
        model = version_of(exported, rounds, monkeypatch)
        coordinator.announce(Announcement(version=rounds, manifest=model.sha256))
        coordinator.say("phone", assignment(model, rounds, plan=PLAN, report_deadline_s=600.0))
        coordinator.next("report")
        coordinator.say("phone", Receipt(round=rounds, attempt=1, verdict=Verdict.ACCEPTED, retry_after_s=0))
        agent.wait_for_log(f"report of round {rounds} accepted")
        written.append(disk.written_bytes())
        why = goes_on_or_rests(coordinator)
    each = (written[-1] - written[0]) / (rounds - 1) if rounds > 1 else 0.0
    print(
        f"at the start {begun / MEGABYTE:.2f} MB; a round with a version {each / MEGABYTE:.2f}; {rounds} of them: {why}"
    )
    assert rounds >= 2
    # Whatever it is asked from now on is neither done nor written down.
    before = disk.written_bytes()
    for number in range(ORDERS):
        coordinator.say("phone", assignment(exported.model, 1000 + number, plan=PLAN))
        coordinator.announce(Announcement(version=1000 + number, manifest=f"{number:064x}", recall=number))
    agent.wait_for_log(f"round={1000 + ORDERS - 1} ")
    asked = disk.written_bytes() - before
    print(f"{ORDERS} orders and versions more: {asked / 1e3:.0f} kB")
    assert asked < 200_000
    assert spent(read_budget(agent.data, None), LIMIT_MB, working=False)  # which is what doctor looks at
    assert "limits.written_mb_per_day" in agent.log.read_text()
    ends_within_the_limit(disk, agent)
