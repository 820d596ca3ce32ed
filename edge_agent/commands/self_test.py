"""``nightjar-agent self-test``: tests with a few steps on synthetic data whether this installation can train.

It runs before a new release of the agent is accepted (docs/bundles.md), so it needs no typed text, no coordinator and
no eligibility. Nothing is stored. Without a model on the device it can only show that the runtime loads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nightjar.edge_agent.commands.opened import held_model, runnable
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.tflite import load_program, runtime_name
from nightjar.models.padding import word_ids
from nightjar.wire.errors import NightjarError

STEPS = 3
_LEARNING_RATE, _CLIP_NORM = 0.5, 5.0
# Word ids that repeat, so that a few steps must lower the loss; ids below 8 are reserved.
_DIFFERENT, _FIRST_WORD = 97, 8


@dataclass(frozen=True, slots=True)
class Tested:
    """Result of the self-test.

    Attributes:
        passed: whether the model trains, or there is no model yet.
        reason: why it failed, or what could not be tested.
        losses: loss of each step, nats.
    """

    passed: bool
    reason: str
    runtime: str
    losses: tuple[float, ...] = ()


def self_test(config: AgentConfig) -> Tested:
    """Train a few steps on synthetic data.

    Raises:
        RemoteProtocolError: the model cannot be run.
        ConfigError: there is no TFLite runtime.
    """
    runtime = runtime_name()
    model = held_model(config)
    if model is None:
        return Tested(True, "no model here yet: only the runtime was loaded", runtime)
    try:
        model = runnable(config, model)
    except NightjarError as error:
        # A fleet whose owner has not signed its program yet must still get releases.
        return Tested(True, f"only the runtime was loaded: {error}", runtime)
    losses = train_steps(model)
    if not all(map(math.isfinite, losses)):
        return Tested(False, "a loss is not finite", runtime, losses)
    if not losses[-1] < losses[0]:
        return Tested(False, f"the loss did not fall in {STEPS} steps", runtime, losses)
    return Tested(True, "", runtime, losses)


def train_steps(model: Model) -> tuple[float, ...]:
    """The loss of each of a few steps on synthetic data, nats; (nearly) the same on every machine."""
    program, manifest = load_program(model), model.manifest
    shape = (manifest.batch_rows, manifest.sequence_length)
    different = min(_DIFFERENT, word_ids(model.vocabulary.read_bytes()) - _FIRST_WORD)
    numbers = np.arange(shape[0] * (shape[1] + 1), dtype=np.int32).reshape(shape[0], -1)
    ids = numbers % np.int32(different) + np.int32(_FIRST_WORD)
    inputs, targets = ids[:, :-1].copy(), ids[:, 1:].copy()
    return tuple(float(program.train(inputs, targets, _LEARNING_RATE, _CLIP_NORM).loss) for _ in range(STEPS))
