"""Killed in each state of each machine, in memory and on a real database: the run ends as if nothing had happened."""

import numpy as np
import pytest

from nightjar.coordinator.rounds.lease import Presence
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.models.manifest import Manifest
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Assignment, Dropout, DropoutCause, Receipt, Status, Verdict
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT

pytestmark = pytest.mark.slow

A, B, C = (DeviceId(name) for name in "abc")


@pytest.fixture
def make_world(worlds_of):
    return worlds_of


def round_of(world: World, number: int = 1):
    with world.repository.transaction() as tx:
        return tx.round(number)


def report(world: World, device: str) -> None:
    value = {"a": 0.01, "b": 0.02, "c": 0.04}[device]
    data = report_frame(world.assignment(device), np.full(LAYOUT.size, value, np.float32), LAYOUT, num_examples=3)
    world.receive(device, "report", data)


def answer(world: World, device: str) -> Verdict:
    return world.transport.to(device, Receipt)[-1].verdict


# A committed round and an abandoned one, in steps; each may come again, as devices repeat what is not answered.
COMMITTED = [
    (Phase.SELECTION, lambda world: world.check_in(A)),
    (Phase.SELECTION, lambda world: world.check_in(A)),
    (Phase.REPORTING, lambda world: world.check_in(B)),
    (Phase.REPORTING, lambda world: report(world, A)),
    (Phase.COMMITTING, lambda world: report(world, B)),
    (Phase.COMMITTED, lambda world: world.work()),
    (Phase.COMMITTED, lambda world: report(world, A)),
]
ABANDONED = [
    (Phase.SELECTION, lambda world: world.check_in(A)),
    (Phase.REPORTING, lambda world: world.check_in(B)),
    (Phase.REPORTING, lambda world: report(world, A)),
    (Phase.REPORTING, lambda world: world.say(B, Dropout(round=1, attempt=1, cause=DropoutCause.IN_USE))),
    (Phase.ABANDONED, lambda world: (world.listen(), world.tick(200.0))),
    (Phase.ABANDONED, lambda world: report(world, A)),
]


def outcome(world: World) -> dict:
    with world.repository.transaction() as tx:
        first, version = tx.round(1), tx.current_version()
        leases = [tx.lease(device) for device in (A, B)]
        counters, stored, then = dict(tx.counters()), tx.reports(1), next(iter(tx.open_rounds()), None)
    manifest = Manifest.decode(world.artifacts.get(version.manifest))
    return {
        "phase": first.phase,
        "reason": first.reason,
        "seats": {device: (seat.state, seat.cause) for device, seat in first.seats.items()},
        "version": version.version,
        "weights": weights_from_bytes(world.artifacts.get(manifest.weights.sha256), LAYOUT).tobytes(),
        "reports": [one.device for one in stored],
        "next": (then.number, then.phase, then.base_version),
        "rounds": [lease.rounds_counted for lease in leases],
        "abandoned": {name: count for name, count in counters.items() if name.startswith(("rounds_", "dropouts"))},
        "answers": {device: answer(world, device) for device in (A,)},
        "frames": len(world.tables.frames),
    }


@pytest.mark.parametrize("story", [COMMITTED, ABANDONED], ids=["committed", "abandoned"])
def test_killed_in_each_phase_the_round_ends_as_if_nothing_had_happened(make_world, story):
    def tell(killed_before: int | None) -> dict:
        world = make_world()
        for number, (phase, happens) in enumerate(story):
            if number == killed_before:
                world.start()
            happens(world)
            assert round_of(world).phase is phase
        world.start()
        return outcome(world)

    expected = tell(None)
    for killed_before in range(len(story)):
        assert tell(killed_before) == expected, f"killed before step {killed_before}"


@pytest.mark.parametrize("phase", Phase)
def test_killed_in_phase_the_round_is_what_it_was(make_world, phase):
    world = make_world()
    for _, happens in ABANDONED if phase is Phase.ABANDONED else COMMITTED:
        happens(world)
        if round_of(world).phase is phase:
            break
    before = round_of(world)
    assert before.phase is phase
    world.start()
    assert round_of(world) == before
    if phase is Phase.REPORTING:
        assert world.assignment(A).attempt == 1
    if phase is Phase.COMMITTING:
        world.work()
        assert round_of(world).phase is Phase.COMMITTED


@pytest.mark.parametrize("presence", Presence)
def test_killed_in_presence_the_lease_is_what_it_was_and_the_device_can_still_take_part(make_world, presence):
    world = make_world()
    match presence:
        case Presence.AWAY:
            world.check_in(A)
            world.status(A, Status(online=False))
        case Presence.PRESENT:
            world.status(A, Status(online=True, state="settling"))
        case Presence.READY:
            world.check_in(A)

    def lease():
        with world.repository.transaction() as tx:
            return tx.lease(A)

    before = lease()
    assert before.presence is presence
    world.start()
    assert lease() == before
    world.check_in(A, B)
    assert world.transport.to(A, Assignment)
    report(world, A)
    assert lease().last_round == 1


def test_killed_in_every_state_of_a_seat_it_is_what_it_was(make_world):
    world = make_world(goal=3, minimum=2, over_selection=1.3)
    world.check_in(A, B, C, "d")
    report(world, A)
    world.receive(B, "report", b"rubbish")
    world.say(C, Dropout(round=1, attempt=1, cause=DropoutCause.TOO_HOT))
    before = round_of(world).seats
    assert [before[device].state for device in (A, B, C, DeviceId("d"))] == [
        SeatState.REPORTED,
        SeatState.REFUSED,
        SeatState.DROPPED,
        SeatState.WORKING,
    ]
    world.start()
    assert round_of(world).seats == before
