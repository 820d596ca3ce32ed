"""Local training: what a device does with its examples between assignment and report.

Local SGD (McMahan et al. 2017, algorithm 1, ClientUpdate) with the rows of the batches reshuffled in each epoch, and
with momentum or the proximal term of FedProx if the plan asks for them; with a full batch (FedSGD), the mean of the
steps from the base weights. The abort predicate is polled before every
batch, so a user who picks up the phone waits for one batch at most; the result so far is kept if the plan says that it
is enough. A training that diverges is ended, and the program's base weights are restored. This module does not fetch,
encode or send.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from nightjar.edge_agent.core.results import Evaluation, TrainingStopped, TrainStep
from nightjar.edge_agent.ports import FurtherProgram, Program
from nightjar.models.batches import Batches, Ids
from nightjar.wire.messages import DropoutCause, TrainingPlan
from nightjar.wire.parameters import Vector

WINDOW = 8
"""Number of batches whose mean loss is compared: single batches differ by a third and more."""
RISE = 1.5
"""Factor by which a window's mean loss must exceed the first window's to count as divergence rather than noise."""
LEAST_LOSS = 1.0
"""Nats that the first window's loss counts at least: of a classifier that is mostly right, a few errors make a batch's
loss several times another's."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainedUpdate:
    """The result of a training whose update is worth sending.

    Attributes:
        delta: (n,) float32, trained weights minus base weights.
        num_examples: number of distinct targets trained on.
        loss: mean loss per target over the last epoch, nats.
        whole: whether every step of the plan was done; False if the training was stopped early.
    """

    delta: Vector
    num_examples: int
    steps: int
    loss: float
    seconds: float
    whole: bool = True


def train(
    program: Program,
    batches: Batches,
    plan: TrainingPlan,
    generator: np.random.Generator,
    should_stop: Callable[[], bool],
    now_s: Callable[[], float],
) -> TrainedUpdate | TrainingStopped:
    """Run the plan on a program that holds the base weights.

    Returns:
        The update, or why there is none. After a divergence the program has its base weights again; after any other
        stop it has partly trained weights.
    """
    if batches.targets == 0:
        return TrainingStopped(DropoutCause.NO_EXAMPLES, "nothing to train on")
    step = _step_of(program, plan)
    if step is None:
        lacking = "momentum and a proximal term"
        return TrainingStopped(
            DropoutCause.TRAINING_FAILED, f"the plan asks for what this model's program lacks: {lacking}"
        )
    planned = min(plan.max_steps, plan.local_epochs * len(batches))
    watch = Watch()
    started_s = now_s()
    steps, loss_sum, targets, seen = 0, 0.0, 0.0, 0
    mean_step = np.zeros(0, np.float32)  # of a full batch, so far
    for x, y in batches_in_order(batches, plan.local_epochs, generator):
        if steps == planned:
            break
        if should_stop():
            if steps < plan.keep_share * planned:
                return TrainingStopped(DropoutCause.IN_USE, f"asked to stop after {steps} of {planned} steps")
            break
        if steps % len(batches) == 0:
            loss_sum = targets = 0.0
        done = step(x, y)
        steps += 1
        seen += int(done.targets)
        diverged = watch.fault(done, steps)
        if diverged:
            program.reset()
            return TrainingStopped(DropoutCause.DIVERGED, diverged)
        loss_sum += done.loss * done.targets
        targets += done.targets
        if plan.full_batch and done.targets:
            step_made, share = program.delta(), np.float32(done.targets / seen)
            mean_step = step_made if not mean_step.size else mean_step + share * (step_made - mean_step)
            program.reset()
    delta = mean_step if plan.full_batch else program.delta()
    if not np.isfinite(delta).all():
        program.reset()
        return TrainingStopped(DropoutCause.DIVERGED, f"the update was not finite after {steps} steps")
    loss = loss_sum / targets if targets else 0.0
    return TrainedUpdate(delta, min(batches.targets, seen), steps, loss, now_s() - started_s, whole=steps == planned)


def evaluate(program: Program, batches: Batches) -> Evaluation:
    """Loss and recall of the program's weights, summed over the batches."""
    return _summed(program.evaluate(x, y) for x, y in batches)


def try_out(program: Program, batches: Batches, should_stop: Callable[[], bool]) -> Evaluation | TrainingStopped:
    """Evaluate like :func:`evaluate`, but stop before the next batch on request; incomplete figures are discarded."""
    evaluations: list[Evaluation] = []
    for x, y in batches:
        if should_stop():
            return TrainingStopped(
                DropoutCause.IN_USE, f"asked to stop after {len(evaluations)} of {len(batches)} batches"
            )
        evaluations.append(program.evaluate(x, y))
    return _summed(evaluations)


def _summed(figures: Iterable[Evaluation]) -> Evaluation:
    total = np.zeros(5)
    for figure in figures:
        total += (figure.loss_sum, figure.targets, figure.counted, figure.top1, figure.top3)
    return Evaluation(*total.tolist())


@dataclass(slots=True)
class Watch:
    """Detects a training that diverges."""

    first: list[float] = field(default_factory=list)
    last: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def fault(self, done: TrainStep, steps: int) -> str:
        """What is wrong after this step; empty if nothing is. The text is sent, so it contains numbers only."""
        if not (math.isfinite(done.loss) and math.isfinite(done.gradient_norm)):
            return f"the loss was {done.loss} and the norm of the gradient {done.gradient_norm} at step {steps}"
        if not done.targets:
            return ""
        if len(self.first) < WINDOW:
            self.first.append(done.loss)
            return ""
        self.last.append(done.loss)
        began, now = sum(self.first) / WINDOW, sum(self.last) / len(self.last)
        if len(self.last) == WINDOW and now > RISE * max(began, LEAST_LOSS):
            return f"the loss rose from {began:.2f} to {now:.2f} in {steps} steps"
        return ""


def _step_of(program: Program, plan: TrainingPlan) -> Callable[[Ids, Ids], TrainStep] | None:
    """The function to call for each batch; None if the program cannot do what the plan asks for."""
    rate, clip = plan.learning_rate, plan.clip_norm
    if not (plan.momentum or plan.proximal):
        return lambda x, y: program.train(x, y, rate, clip)
    if not isinstance(program, FurtherProgram):
        return None
    further = program
    further.begin()
    return lambda x, y: further.train_momentum(x, y, rate, clip, plan.momentum, plan.proximal)


def batches_in_order(batches: Batches, epochs: int, generator: np.random.Generator) -> Iterator[tuple[Ids, Ids]]:
    """The batches (x, y) of all epochs; each epoch has its rows in a new order, which mixes messages and padding.

    Each batch is copied when it is due: a round may take a few of many, and an epoch's copy needs twice the memory.
    """
    rows = batches.x.shape[0] * batches.x.shape[1]
    x, y = (each.reshape(rows, *each.shape[2:]) for each in (batches.x, batches.y))
    for _ in range(epochs):
        for chosen in generator.permutation(rows).reshape(batches.x.shape[:2]):
            yield x[chosen], y[chosen]
