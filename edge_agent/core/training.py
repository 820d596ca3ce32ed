"""Local epochs: what a device does with its examples between assignment and report.

Plain local SGD (McMahan et al. 2017, algorithm 1, ClientUpdate) with the rows of the batches shuffled anew in each
epoch. The abort predicate is asked before every batch, so a person who picks up the phone waits for one batch at most.
Numbers that are not finite end the training and reset the program. Does not fetch, encode or send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from edge_agent.ports import Program
from models.batches import Batches, Ids
from wire.messages import DropoutCause, TrainingPlan
from wire.parameters import Vector


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A finished training.

    Attributes:
        delta: (n,) float32, trained minus base.
        num_examples: next-word targets in one pass over the data.
        steps: optimizer steps done.
        loss: mean per target over the last epoch, nats.
        seconds: time it took.
    """

    delta: Vector
    num_examples: int
    steps: int
    loss: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """A training that was given up.

    Attributes:
        cause: said to the coordinator.
        detail: for a person; never text, tokens or parameters.
    """

    cause: DropoutCause
    detail: str


def train(
    program: Program,
    batches: Batches,
    plan: TrainingPlan,
    generator: np.random.Generator,
    should_stop: Callable[[], bool],
    now_s: Callable[[], float],
) -> Trained | Stopped:
    """Run the plan on a program that holds the base weights.

    Args:
        program: holds the base weights, from which ``delta`` is measured.
        batches: the device's examples.
        plan: how long, how fast.
        generator: shuffles.
        should_stop: asked before every batch.
        now_s: seconds on a clock that does not jump.

    Returns:
        The update, or why there is none. After a stop for numbers that are not finite the program holds the base
        weights again; after any other stop it is in the middle of a training.
    """
    if batches.targets == 0:
        return Stopped(DropoutCause.NO_EXAMPLES, "no words to train on")
    started_s = now_s()
    steps, loss = 0, 0.0
    for _ in range(plan.local_epochs):
        loss_sum, targets = 0.0, 0.0
        for x, y in _shuffled(batches, generator):
            if steps == plan.max_steps:
                break
            if should_stop():
                return Stopped(DropoutCause.IN_USE, "asked to stop")
            done = program.train(x, y, plan.learning_rate, plan.clip_norm)
            if not np.isfinite(done.loss):
                program.reset()
                return Stopped(DropoutCause.TRAINING_FAILED, f"the loss was {done.loss} at step {steps + 1}")
            steps += 1
            loss_sum += done.loss * done.targets
            targets += done.targets
        if targets:
            loss = loss_sum / targets
        if steps == plan.max_steps:
            break
    delta = program.delta()
    if not np.isfinite(delta).all():
        program.reset()
        return Stopped(DropoutCause.TRAINING_FAILED, "the update was not finite")
    return Trained(delta, batches.targets, steps, loss, now_s() - started_s)


def _shuffled(batches: Batches, generator: np.random.Generator) -> Iterator[tuple[Ids, Ids]]:
    """The batches with their rows in a new order: rows of one message mix with others, and so does the padding."""
    steps, rows, length = batches.x.shape
    order = generator.permutation(steps * rows)
    x = batches.x.reshape(steps * rows, length)[order].reshape(batches.x.shape)
    y = batches.y.reshape(steps * rows, length)[order].reshape(batches.y.shape)
    return zip(x, y, strict=True)
