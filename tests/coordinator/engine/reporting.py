"""Reports of devices to a world, and what comes of them."""

import numpy as np

from nightjar.models.manifest import Manifest
from nightjar.wire.messages import Receipt, Verdict
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT


def delta(value: float) -> np.ndarray:
    return np.full(LAYOUT.size, value, np.float32)


def report(world: World, device: str, value: float = 0.01, num_examples: int = 5) -> bytes:
    return report_frame(world.assignment(device), delta(value), LAYOUT, num_examples)


def receipts(world: World, device: str) -> list[Verdict]:
    return [message.verdict for message in world.transport.to(device, Receipt)]


def weights_of(world: World) -> np.ndarray:
    with world.repository.transaction() as tx:
        manifest = Manifest.decode(world.artifacts.get(tx.current_version().manifest))
    return weights_from_bytes(world.artifacts.get(manifest.weights.sha256), manifest.layout)
