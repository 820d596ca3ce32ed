"""The federated arm without processes or network: training, codec and averaging are the product's.

It is to real silos what the laboratory is to real phones: the same learning in a fraction of the time, with other
random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import numpy as np

from nightjar.coordinator.learning.fedavg import ClientUpdate, federated_average
from nightjar.coordinator.learning.strategies import optimizer_for
from nightjar.coordinator.tasks.settings import StrategyConfig
from nightjar.edge_agent.core.training import TrainedUpdate, train
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.experiments.silos.federation import FederatedPlan
from nightjar.experiments.silos.progress import RunPart
from nightjar.models.batches import Batches
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice, TrainingPlan
from nightjar.wire.parameters import Vector


def train_here(
    model: Model, silos: dict[str, Batches], plan: FederatedPlan, seed: int, show: Callable[[RunPart], object]
) -> Vector:
    """The weights after all rounds, (n,) float32.

    Raises:
        UnavailableError: a training diverged.
    """
    program, layout = load_program(model), model.manifest.layout
    choice = msgspec.convert(plan.strategy, StrategyConfig).choice()
    codec = codec_for(CodecChoice(name="dense-f32"))
    generators: Sequence[np.random.Generator] = np.random.default_rng([seed, 26]).spawn(len(silos))
    asked = TrainingPlan(
        learning_rate=plan.learning_rate, clip_norm=plan.clip_norm, local_epochs=1000, max_steps=plan.steps
    )
    weights, clip_norm = program.save(), None
    state = optimizer_for(choice).init(layout.size)
    for number in range(plan.rounds):
        updates = []
        for (name, rows), generator in zip(silos.items(), generators, strict=True):
            program.restore(weights)
            done = train(program, rows, asked, generator, lambda: False, time.monotonic)
            if not isinstance(done, TrainedUpdate):
                msg = f"{name} ended early in round {number + 1}: {done.detail}"
                raise UnavailableError(msg)
            payload = codec.encode(done.delta, layout, generator)
            updates.append(ClientUpdate(DeviceId(name), done.num_examples, partial(bytes, payload)))
        optimizer = optimizer_for(choice, number)
        averaged = federated_average(weights, state, updates, codec, layout, optimizer, clip_norm)
        weights, state, clip_norm = averaged.weights, averaged.state, averaged.clip_norm
        show(RunPart("federated", number + 1, plan.rounds, "rounds"))
    return weights
