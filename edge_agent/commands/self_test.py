"""``nightjar-agent self-test``: can this installation train here? A few steps on made-up numbers; nothing is kept.

It is asked before a new release of the agent counts (docs/bundles.md), so it needs no typed text, no coordinator
and no condition. Without a model on the device it can only show that the runtime loads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edge_agent.commands.opened import held_model
from edge_agent.config import AgentConfig
from edge_agent.ports import Model
from edge_agent.shell.tflite import load_program, runtime_name

STEPS = 3
_LEARNING_RATE, _CLIP_NORM = 0.5, 5.0
# Ids of words that repeat, so that a few steps must lower the loss; below 8 there are ids with a meaning.
_DIFFERENT, _FIRST_WORD = 97, 8


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of it.

    Attributes:
        passed: it trains, or there is no model to train yet.
        reason: why not, or what could not be tried.
        runtime: TFLite runtime and version.
        losses: of each step, nats.
    """

    passed: bool
    reason: str
    runtime: str
    losses: tuple[float, ...] = ()


def self_test(config: AgentConfig) -> Tested:
    """Train a few steps.

    Raises:
        RemoteProtocolError: the model cannot be run.
        ConfigError: there is no TFLite runtime.
    """
    runtime = runtime_name()
    model = held_model(config)
    if model is None:
        return Tested(True, "no model here yet: only the runtime was loaded", runtime)
    losses = train_steps(model)
    if not all(map(math.isfinite, losses)):
        return Tested(False, "a loss is not finite", runtime, losses)
    if not losses[-1] < losses[0]:
        return Tested(False, f"the loss did not fall in {STEPS} steps", runtime, losses)
    return Tested(True, "", runtime, losses)


def train_steps(model: Model) -> tuple[float, ...]:
    """The loss of each of a few steps on made-up numbers, nats: the same on every machine, or nearly so."""
    program, manifest = load_program(model), model.manifest
    shape = (manifest.batch_rows, manifest.sequence_length)
    different = min(_DIFFERENT, manifest.vocabulary_size - _FIRST_WORD)
    numbers = np.arange(shape[0] * (shape[1] + 1), dtype=np.int32).reshape(shape[0], -1)
    ids = numbers % np.int32(different) + np.int32(_FIRST_WORD)
    inputs, targets = ids[:, :-1].copy(), ids[:, 1:].copy()
    return tuple(float(program.train(inputs, targets, _LEARNING_RATE, _CLIP_NORM).loss) for _ in range(STEPS))
