"""What a coordinator publishes beside the weights: transfers, through whole rounds on in-memory ports."""

import numpy as np
import pytest

from nightjar.edge_agent.shell.model_files import shortest_transfers
from nightjar.models.manifest import Manifest
from nightjar.wire.codec import codec_for
from nightjar.wire.codec.transfers import apply_transfer
from nightjar.wire.frame import Report, encode_report
from nightjar.wire.messages import Receipt, Verdict
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model

NAMES = ("a", "b")


@pytest.fixture
def make_world(tmp_path, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.learning.downlink.LEAST_WHOLE_BYTES", 0)  # this model is a small one
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
        codec = codec_for(asked.codec)
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
def test_a_device_up_to_some_versions_back_fetches_a_fraction_and_gets_the_same_weights(make_world, monkeypatch, form):
    monkeypatch.setattr("nightjar.coordinator.learning.downlink.DENSITY", 0.2)
    world = make_world(downlink=form)
    held = {}
    for number in range(4):
        manifest = current(world)
        held[manifest.weights.sha256] = weights_of(world, manifest)
        play_round(world, 10 * number)
    manifest = current(world)
    bases = [way.base for way in manifest.transfers]
    assert bases == list(reversed(held))[: len(bases)]
    assert len(bases) == (4 if form == "topk-8" else 1), "in form f32, more than a quarter changed in two rounds"
    for base in bases:
        steps = shortest_transfers(manifest, base.__eq__)
        assert (len(steps) == 1) == (base == bases[0])
        got = held[base]
        for step in steps:
            got = apply_transfer(world.artifacts.get(step.file.sha256), got, LAYOUT)
        assert got.tobytes() == weights_of(world, manifest).tobytes()


@pytest.mark.parametrize(("form", "most"), [("f32", 3), ("topk-8", 2)])
def test_only_some_versions_back(make_world, monkeypatch, form, most):
    monkeypatch.setattr("nightjar.coordinator.engine.effect_runner.VERSIONS_BACK", 2)
    monkeypatch.setattr("nightjar.coordinator.learning.downlink.VERSIONS_BACK", 2)
    world = make_world(downlink=form)
    for number in range(4):
        play_round(world, 10 * number)
    assert len(current(world).transfers) <= most
