"""One hostile device among twenty, through the driver, the codec and the checks: what it makes of the model."""

import struct

import numpy as np
import pytest
from msgspec import structs

from nightjar.coordinator.rounds.lease import BARRED_S, REFUSALS_ALLOWED
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.tasks.settings import CodecConfig
from nightjar.models.manifest import Manifest
from nightjar.wire import frame
from nightjar.wire.messages import Rejection, RejectionReason
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model

HONEST, EXAMPLES = 19, 500
SOUND_NORM, OLD_LIMIT = 4.0, 95.0
NAMES = tuple(f"d{number:02d}" for number in range(HONEST + 1))


@pytest.fixture
def world(tmp_path):
    codec = CodecConfig(name="topk-8", density=1.0)
    return World(write_model(tmp_path), tmp_path, goal=HONEST + 1, minimum=2, codec=codec)


def of_norm(vector, norm):
    return (vector * (norm / np.linalg.norm(vector))).astype(np.float32)


def honest_updates():
    """A common direction, and as much noise."""
    generator = np.random.default_rng(5)
    common = of_norm(generator.normal(size=LAYOUT.size), 1.0)
    return [
        of_norm(common + of_norm(generator.normal(size=LAYOUT.size), 1.0), SOUND_NORM * generator.uniform(0.7, 1.3))
        for _ in range(HONEST)
    ]


def hold_round(world, updates, examples):
    """What the round adds to the weights, and the update of each device."""
    names = NAMES[: len(updates)]
    world.check_in(*names)
    world.tick(60.0)
    for name, update, claimed in zip(names, updates, examples, strict=True):
        world.receive(name, "report", report_frame(world.assignment(name), update, LAYOUT, claimed))
    world.tick(100.0)
    before = current_weights(world)
    world.work()
    return current_weights(world).astype(np.float64) - before


def current_weights(world):
    with world.repository.transaction() as tx:
        manifest = Manifest.decode(world.artifacts.get(tx.current_version().manifest))
    return weights_from_bytes(world.artifacts.get(manifest.weights.sha256), LAYOUT)


ATTACKS = {
    "sign flip, own size": (-1, SOUND_NORM, EXAMPLES),
    "sign flip at the old limit": (-1, OLD_LIMIT, EXAMPLES),
    "sign flip, claims 10,000 examples": (-1, OLD_LIMIT, 10_000),
    "random direction, claims 10,000 examples": (0, OLD_LIMIT, 10_000),
    "sign flip beyond all measure": (-1, 1e15, 2**32 - 1),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_device_of_twenty_hardly_moves_the_mean(world, attack):
    sign, norm, claimed = ATTACKS[attack]
    honest = honest_updates()
    sound = np.mean(honest, axis=0)
    direction = sign * sound if sign else np.random.default_rng(9).normal(size=LAYOUT.size)
    for _ in range(2):  # clipped to its own median first, and then to the norm that was learned
        moved = hold_round(world, [*honest, of_norm(direction, norm)], [*[EXAMPLES] * HONEST, claimed])
        cosine = moved @ sound / np.linalg.norm(moved) / np.linalg.norm(sound)
        assert cosine > 0.95
        assert np.linalg.norm(moved) == pytest.approx(np.linalg.norm(sound), rel=0.2)


def test_of_two_devices_neither_sets_the_norm_or_the_weight_alone(world):
    honest = honest_updates()[0]
    moved = hold_round(world, [honest, of_norm(-honest, 1e6)], [10, 10**6])
    assert np.linalg.norm(moved) < 1e-2 * SOUND_NORM, "as much one way as the other"


def lying(world, name, update):
    """A report whose head states another norm than its values have."""
    good = frame.decode(report_frame(world.assignment(name), update, LAYOUT, EXAMPLES))
    head = bytearray(good.payload)
    head[8:12] = struct.pack("<f", 1.0)
    return frame.encode_report(structs.replace(good, payload=bytes(head)))


def test_a_head_that_lies_costs_its_sender_and_not_the_round(tmp_path):
    codec = CodecConfig(name="topk-8", density=1.0)
    world = World(write_model(tmp_path), tmp_path, goal=2, minimum=2, codec=codec)
    sound = honest_updates()
    world.check_in("a", "liar")
    world.receive("a", "report", report_frame(world.assignment("a"), sound[0], LAYOUT, EXAMPLES))
    world.receive("liar", "report", lying(world, "liar", sound[1]))
    world.work()
    assert world.phase_of(1) is Phase.REPORTING
    assert (world.counters["reports_unreadable"], world.tables.leases["liar"].refusals) == (1, 1)
    world.check_in("liar")
    assert world.transport.to("liar", Rejection)[-1].reason is RejectionReason.ROUND_IN_PROGRESS
    world.check_in("b")
    world.receive("b", "report", report_frame(world.assignment("b"), sound[2], LAYOUT, EXAMPLES))
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    assert world.tables.versions[1].lineage.reports == 2


def test_a_device_whose_reports_are_of_no_use_is_not_selected_for_a_while(world):
    for number in range(1, REFUSALS_ALLOWED + 1):
        world.check_in(*NAMES)
        world.tick(60.0)
        honest = honest_updates()
        for name, update in zip(NAMES[1:], honest, strict=True):
            world.receive(name, "report", report_frame(world.assignment(name), update, LAYOUT, EXAMPLES))
        world.receive(NAMES[0], "report", report_frame(world.assignment(NAMES[0]), honest[0], LAYOUT, num_examples=0))
        world.work()
        assert world.phase_of(number) is Phase.COMMITTED
    world.check_in(NAMES[0])
    answer = world.transport.to(NAMES[0], Rejection)[-1]
    assert answer.reason is RejectionReason.BLOCKED
    assert "3 of its reports could not be used" in answer.detail
    world.tick(BARRED_S)
    world.check_in(NAMES[0])
    assert NAMES[0] in world.tables.rounds[max(world.tables.rounds)].pool
