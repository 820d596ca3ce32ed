"""Two coordinators on two hosts: the leader is killed, frozen or cut off in each state of a round."""

import contextlib
import signal
import sys
import time

import numpy as np
import pytest

from nightjar.coordinator.access import fingerprint
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fencing import LeadLostError
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.coordinator.tasks.operations import TokenRecord
from nightjar.models.manifest import Manifest
from nightjar.wire.messages import Verdict
from nightjar.wire.parameters import weights_from_bytes
from tests.brokers import KINDS
from tests.coordinator.fake_device import devices, report_frame
from tests.coordinator.model_folder import INITIAL, LAYOUT
from tests.coordinator.storage.postgresql import fresh_database, server
from tests.hosts.network import hosts
from tests.hosts.world import Coordinator, Fleet

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.broker, *KINDS[1].marks]

FAULTS = ["killed", "frozen", "cut off"]
STATES = [Phase.SELECTION, Phase.REPORTING, Phase.COMMITTING, Phase.COMMITTED]
IN_CI = {("frozen", Phase.REPORTING), ("killed", Phase.COMMITTING), ("cut off", Phase.SELECTION)}
SMALL, LARGE = (np.full(LAYOUT.size, value, np.float32) for value in (0.01, 0.02))


@pytest.fixture(scope="module")
def two_hosts():
    with hosts(2) as made:
        yield made


@pytest.fixture(scope="module")
def shared_server():
    (port,) = free_ports(1)
    with server(port) as url:
        yield url


@pytest.fixture
def fleet(two_hosts, shared_server, tmp_path):
    with contextlib.ExitStack() as stack:
        made = Fleet(tmp_path, two_hosts, fresh_database(shared_server, f"fleet_{time.monotonic_ns()}"))
        stack.callback(made.close)
        yield made


def happen(fault: str, leader: Coordinator) -> None:
    match fault:
        case "killed":
            leader.signal(signal.SIGKILL)
        case "frozen":
            leader.signal(signal.SIGSTOP)
        case "cut off":
            leader.host.cut()


CASES = [
    pytest.param(fault, state, marks=[] if (fault, state) in IN_CI else [pytest.mark.long], id=f"{fault}-{state.value}")
    for fault in FAULTS
    for state in STATES
]


@pytest.mark.parametrize(("fault", "state"), CASES)
def test_another_host_leads_and_nothing_accepted_is_lost_or_counted_twice(fleet, fault, state):
    leader, successor = fleet.coordinators
    duplicates = 0

    with devices(fleet.broker.port, "a", "b") as (a, b):

        def fail(reached: Phase) -> None:
            nonlocal leader, successor
            if reached is not state:
                return
            began_s = time.monotonic()
            happen(fault, leader)
            successor.wait_until(successor.leads, "leading")
            sys.stdout.write(f"{fault} in {state.value}: another led after {time.monotonic() - began_s:.1f} s\n")
            leader, successor = successor, leader

        a.check_in()
        leader.wait_until(lambda: "a" in fleet.round().pool, "waiting for the second device")
        fail(Phase.SELECTION)
        b.check_in()
        first, second = a.wait_for_assignment(), b.wait_for_assignment()
        reports = report_frame(first, SMALL, LAYOUT, 1), report_frame(second, LARGE, LAYOUT, 3)
        assert a.report_until_receipt(first, reports[0]).verdict is Verdict.ACCEPTED
        fail(Phase.REPORTING)
        if state is Phase.REPORTING:
            assert a.report(first, reports[0]).verdict is Verdict.DUPLICATE
            duplicates += 1
        if state is Phase.COMMITTING:
            for child in leader.children():  # the worker, so that the round stays in this phase
                child.send_signal(signal.SIGSTOP)
        assert b.report_until_receipt(second, reports[1]).verdict is Verdict.ACCEPTED
        leader.wait_until(lambda: fleet.round().phase in {Phase.COMMITTING, Phase.COMMITTED}, "averaging")
        fail(Phase.COMMITTING)
        leader.wait_until(lambda: leader.state()["task"]["state"] == "finished", "done")
        fail(Phase.COMMITTED)
        assert b.report(second, reports[1]).verdict is Verdict.DUPLICATE

    state_after = leader.state()
    manifest = Manifest.decode(leader.get(f"/artifacts/{state_after['versions'][-1]['manifest']}"))
    weights = weights_from_bytes(leader.get(f"/artifacts/{manifest.weights.sha256}"), manifest.layout)
    np.testing.assert_allclose(weights, INITIAL + (SMALL + LARGE / 2) / 2, rtol=1e-6)
    counters = state_after["counters"]
    assert (counters["rounds_committed"], counters["reports_accepted"], counters["rounds_abandoned"]) == (1, 2, 0)
    assert counters["reports_duplicate"] >= duplicates + 1  # a device sends again what is answered late

    former, before = successor, fleet.rows()
    former.host.heal()
    former.signal(signal.SIGCONT)
    status = former.ended()
    assert status == {"killed": -signal.SIGKILL}.get(fault, LeadLostError.exit_status)
    assert fault == "killed" or "lead_lost" in former.log()
    assert fleet.rows() == before
    former.start()  # as its supervisor does
    former.wait_until(lambda: former.follows(leader.name), "standing by")
    assert former.get(f"/artifacts/{manifest.weights.sha256}") == leader.get(f"/artifacts/{manifest.weights.sha256}")


def test_a_host_that_does_not_lead_shows_the_pages_and_leaves_changes_to_the_leader(fleet):
    leader, follower = fleet.coordinators
    database = Database(fleet.database, migrate=False)
    token = "operators-token"
    TokenTable(database).add(
        TokenRecord(name="o", role="operator", sha256=fingerprint(token), created_s=0.0, expires_s=1e12), "test"
    )
    database.close()
    task = leader.state()["task"]["name"]
    assert follower.get("/")
    assert follower.state()["task"]["name"] == task
    assert follower.post(f"/api/v1/tasks/{task}/pause", token) == 503
    assert leader.post(f"/api/v1/tasks/{task}/pause", token) == 200
    assert follower.state()["task"]["state"] == "paused"
    leader.process.send_signal(signal.SIGTERM)
    follower.wait_until(follower.leads, "leading after an orderly end")
    assert leader.ended() == 0
    assert follower.post(f"/api/v1/tasks/{task}/stop", token) == 200
