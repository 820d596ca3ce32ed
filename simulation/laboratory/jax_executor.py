"""Trains the devices of a cohort at once with JAX, on a GPU if there is one.

The batches, their order, the check for divergence and the encoding are those of the other executors. The training steps
are not (:mod:`nightjar.simulation.laboratory.jax_steps`): a report differs from theirs in the last bits, and rounds
amplify such differences. So a seed gives the same curve on machines of one kind, but another curve than the other
executors give.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nightjar.edge_agent.core.results import TrainStep
from nightjar.edge_agent.core.training import TrainedUpdate, Watch, batches_in_order
from nightjar.models.batches import Ids
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.vocabulary import PAD
from nightjar.simulation.laboratory import jax_steps
from nightjar.simulation.laboratory.clients import Device, Reported, could_not_train, report
from nightjar.simulation.warm_start import seeded
from nightjar.wire.errors import ConfigError
from nightjar.wire.parameters import ParameterLayout, Vector

AT_ONCE = 32
"""Most devices that are trained at once: of the large model, each takes some 50 MB of the GPU's memory."""


class JaxCohort:
    """Implements :class:`nightjar.simulation.laboratory.executor.Executor` with all devices at once on one GPU or CPU.

    The device's program is not used. The folder of the run has what devices keep.

    Raises:
        ConfigError: the experiment needs what these steps cannot do.
    """

    def __init__(self, device: Device, shape: ModelConfiguration, folder: Path) -> None:
        if device.plan.full_batch or device.personal.method:
            what = "one step along a full batch" if device.plan.full_batch else device.personal.method
            msg = f"--jax trains by SGD over batches, not by {what}; leave --jax out"
            raise ConfigError(msg)
        self._device, self._folder = device, folder
        self._threads = ThreadPoolExecutor(os.cpu_count())  # encoding takes longer than the training on a large GPU
        self._train = jax_steps.compiled(device.layout, shape.cell)
        plan = device.plan
        self._rows, self._most = 1, max(map(self._steps, range(len(device.batches))))
        self._rule = jax_steps.Hyperparameters(plan.learning_rate, plan.clip_norm, plan.momentum, plan.proximal)

    def train(self, people: Sequence[int], round_number: int, weights: Vector, *, measured: bool) -> list[Reported]:
        """Those with about as many steps together, so that few wait for others."""
        reports: dict[int, Reported] = {}
        by_steps = sorted(people, key=self._steps)
        for first in range(0, len(by_steps), AT_ONCE):
            trained = self._trained(by_steps[first : first + AT_ONCE], round_number, weights)
            encode = partial(self._report, round_number, measured=measured)
            reports |= dict(zip(trained, self._threads.map(encode, trained, trained.values()), strict=True))
        return [reports[person] for person in people]

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown()

    def _report(self, round_number: int, person: int, trained: TrainedUpdate, *, measured: bool) -> Reported:
        return report(self._device, person, round_number, trained, measured=measured)

    def _steps(self, person: int) -> int:
        plan = self._device.plan
        return min(plan.max_steps, plan.local_epochs * len(self._device.batches[person]))

    def _trained(self, people: Sequence[int], round_number: int, weights: Vector) -> dict[int, TrainedUpdate]:
        """Train these people's devices at once, in arrays of the largest shape so far: each new one is compiled."""
        batches = [self._device.batches[person] for person in people]
        self._rows = max(self._rows, len(people))
        shape = (self._rows, self._most, *batches[0].x.shape[1:])
        x, y = np.zeros(shape, np.int32), np.full(shape, PAD, np.int32)
        for row, (person, own) in enumerate(zip(people, batches, strict=True)):
            shuffle = seeded(self._device.seed, "shuffle", round_number, person)
            due = batches_in_order(own, self._device.plan.local_epochs, shuffle)
            for step, (inputs, targets) in enumerate(itertools.islice(due, self._steps(person))):
                x[row, step], y[row, step] = inputs, targets
        most = max(map(self._steps, people))
        steps: jax_steps.Steps = jax.device_get(self._train(weights, x, y, most, self._rule))
        return {person: self._update(person, round_number, steps, row) for row, person in enumerate(people)}

    def _update(self, person: int, round_number: int, steps: jax_steps.Steps, row: int) -> TrainedUpdate:
        """What :func:`nightjar.edge_agent.core.training.train` returns for one of the devices."""
        own, planned, watch = self._device.batches[person], self._steps(person), Watch()
        loss, targets = steps.loss[row, :planned], steps.targets[row, :planned]
        for step in range(planned):
            done = TrainStep(float(loss[step]), float(targets[step]), 0.0, float(steps.gradient_norm[row, step]))
            if fault := watch.fault(done, step + 1):
                raise could_not_train(person, round_number, fault)
        if not planned or not np.isfinite(steps.delta[row]).all():
            raise could_not_train(person, round_number, "the update was not finite" if planned else "no examples")
        last = slice((planned - 1) // len(own) * len(own), None)  # its last epoch
        mean = float(np.dot(loss[last], targets[last]) / max(targets[last].sum(), 1.0))
        return TrainedUpdate(np.asarray(steps.delta[row]), min(own.targets, int(targets.sum())), planned, mean, 0.0)


class JaxTrainer:
    """Implements :class:`nightjar.simulation.laboratory.training.Trainer`; weights stay on the GPU between steps."""

    def __init__(self, layout: ParameterLayout, shape: ModelConfiguration) -> None:
        self._train = jax_steps.compiled(layout, shape.cell)
        self._weights: Any = np.zeros(layout.size, np.float32)

    def train(self, x: Ids, y: Ids, learning_rate: float, clip_norm: float) -> None:
        """One step of SGD on a batch: x, y (B, T)."""
        done = self._train(
            self._weights, x[None, None], y[None, None], 1, jax_steps.Hyperparameters(learning_rate, clip_norm)
        )
        self._weights = self._weights + done.delta[0]

    def save(self) -> Vector:
        """The weights, (n,) float32."""
        return np.asarray(self._weights)

    def restore(self, weights: Vector) -> None:
        """Load weights (n,) float32."""
        self._weights = weights
