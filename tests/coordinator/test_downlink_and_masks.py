"""What a coordinator publishes beside the weights: transfers and masks, through whole rounds on in-memory ports."""

import numpy as np
import pytest

from coordinator.engine.aggregation import asked_codec, with_mask
from coordinator.tasks.settings import CodecConfig
from models.manifest import Manifest
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model
from wire.codec.masks import mask_from_bytes
from wire.codec.transfers import apply_transfer
from wire.frame import Report, encode_report
from wire.messages import Receipt, Verdict
from wire.parameters import weights_from_bytes

NAMES = ("a", "b")


@pytest.fixture
def make_world(tmp_path, monkeypatch):
    monkeypatch.setattr("coordinator.learning.downlink.LEAST_WHOLE_BYTES", 0)  # this model is a small one
    manifest = write_model(tmp_path)
    return lambda **task: World(manifest, tmp_path, **task)


def current(world):
    with world.repository.transaction() as tx:
        return Manifest.decode(world.artifacts.get(tx.current_version().manifest))


def weights_of(world, manifest):
    return weights_from_bytes(world.artifacts.get(manifest.weights.sha256), manifest.layout)


def sparse_delta(seed):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(LAYOUT.size) < 0.1, rng.normal(scale=0.05, size=LAYOUT.size), 0).astype(np.float32)


def play_round(world, seed=0):
    world.check_in(*NAMES)
    for number, name in enumerate(NAMES):
        asked = world.assignment(name)
        codec = asked_codec(asked.codec, current(world), world.artifacts)
        payload = codec.encode(sparse_delta(seed + number), LAYOUT, np.random.default_rng(seed))
        frame = encode_report(
            Report(
                asked.round, asked.attempt, codec.wire_id, LAYOUT.fingerprint, asked.version, 5, 1, 1.0, 1.0, payload
            )
        )
        world.receive(name, "report", frame)
        assert world.transport.to(name, Receipt)[-1].verdict is Verdict.ACCEPTED
    world.work()


@pytest.mark.parametrize("form", ["f32", "topk-8"])
def test_a_device_that_took_part_fetches_a_fraction_and_gets_the_same_weights(make_world, monkeypatch, form):
    monkeypatch.setattr("coordinator.learning.downlink.DENSITY", 0.2)
    world = make_world(downlink=form)
    held = {}
    for number in range(4):
        manifest = current(world)
        held[manifest.weights.sha256] = weights_of(world, manifest)
        play_round(world, 10 * number)
    manifest = current(world)
    ways = [way for way in manifest.transfers if way.base in held or way.base is None]
    assert ways
    for way in ways:
        data = world.artifacts.get(way.file.sha256)
        got = apply_transfer(data, held.get(way.base), LAYOUT)
        assert got.tobytes() == weights_of(world, manifest).tobytes()


def test_only_some_versions_back(make_world, monkeypatch):
    monkeypatch.setattr("coordinator.engine.effect_runner.VERSIONS_BACK", 2)
    world = make_world()
    for number in range(4):
        play_round(world, 10 * number)
    assert len(current(world).transfers) <= 3


@pytest.mark.parametrize("name", ["mask-4", "mask-8"])
def test_each_round_has_its_mask_and_every_report_the_same_length(make_world, name):
    world = make_world(codec=CodecConfig(name=name, density=0.5))
    masks, sizes = [], set()
    for number in range(3):
        manifest = current(world)
        play_round(world, 10 * number)
        asked = world.assignment("a")
        assert asked.codec.mask == manifest.mask.sha256
        masks.append(mask_from_bytes(world.artifacts.get(asked.codec.mask), LAYOUT))
        sizes |= {r.size_bytes for r in world.tables.reports.values()}
    assert len(sizes) == 1
    assert all(mask.size == masks[0].size == -(-LAYOUT.size // 2) for mask in masks)
    assert masks[1].tolist() != masks[0].tolist()


def test_a_mask_keeps_most_of_what_moved_last(make_world):
    world = make_world(codec=CodecConfig(name="mask-8", density=0.5))
    before = weights_of(world, current(world))
    play_round(world)
    moved = np.abs(weights_of(world, current(world)) - before)
    mask = mask_from_bytes(world.artifacts.get(current(world).mask.sha256), LAYOUT)
    largest = np.argsort(-moved, kind="stable")[: round(0.8 * mask.size)]
    assert set(largest[moved[largest] > 0]) <= set(mask.tolist())


def test_a_report_without_the_mask_is_refused(make_world):
    world = make_world(codec=CodecConfig(name="mask-8", density=0.5))
    world.check_in(*NAMES)
    asked = world.assignment("a")
    frame = encode_report(
        Report(asked.round, asked.attempt, 6, LAYOUT.fingerprint, asked.version, 5, 1, 1.0, 1.0, b"\0" * 9)
    )
    world.receive("a", "report", frame)
    assert world.transport.to("a", Receipt)[-1].verdict is Verdict.INVALID


def test_a_first_mask_is_made_once_and_again_only_for_another_density(make_world):
    world = make_world(codec=CodecConfig(name="mask-4", density=0.5))
    first = current(world)
    assert with_mask(first, world.config.task.codec, world.config.seed, world.artifacts) == first
    world = make_world(codec=CodecConfig(name="mask-4", density=0.25))
    assert current(world).mask != first.mask
