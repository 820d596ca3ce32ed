"""What two silos gain from each other: each alone, both pooled, and federated, with the same program and epochs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nightjar.coordinator.learning.strategies.rate_schedule import Decay, RateSchedule, rate_share
from nightjar.edge_agent.core.training import TrainedUpdate, evaluate, train
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.experiments.silos.federation import FederatedPlan, Federation
from nightjar.experiments.silos.hosts import SiloHost
from nightjar.experiments.silos.in_process import train_here
from nightjar.experiments.silos.progress import RunPart
from nightjar.models.batches import Batches
from nightjar.models.classification import Classification
from nightjar.models.folder import VOCABULARY
from nightjar.simulation.demo.classification import export
from nightjar.simulation.demo.processes import outcome, quiet_child, stopping
from nightjar.simulation.demo.reading import State
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import TrainingPlan
from nightjar.wire.parameters import Vector

HALVES, LABELS = "random halves", "by label"
NAMES = ("silo-a", "silo-b")
CLASSES = 10


@dataclass(frozen=True, slots=True)
class Images:
    """Images to train and to test on: x (n, rows, columns, 1) float32, 0 to 1; y (n,) int64."""

    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    test_x: npt.NDArray[np.float32]
    test_y: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SiloTraining:
    """How a model is trained; 10,000 images for validation, none of them a test image, chose the numbers.

    Random halves take FedAvg and two rounds an epoch. Split by label, a silo forgets the other's digits within an
    epoch: a round has few steps, and server momentum (FedAvgM) makes up for their number. All arms take as many epochs,
    more of few images, until each has learned what it can: a silo's steps in all rounds are half of the pooled ones.
    """

    model: str
    learning_rate: float  # of silos alone, of the pooled images, and of random halves
    label_rate: float  # of a silo with the split by label
    epochs: int  # passes over the examples, in all arms
    label_steps: int = 16  # most steps of a silo in a round with the split by label
    label_rounds: int = 320  # about the fewest rounds with that split: a round has fewer steps of few images
    clip_norm: float = 5.0  # of a batch's gradient

    def federated(self, split: str, silo_steps: int) -> FederatedPlan:
        """The rounds for as many steps as a silo alone takes; ``silo_steps`` is an epoch's."""
        total = self.epochs * silo_steps
        few = max(1, min(silo_steps, self.label_steps, total // self.label_rounds))
        steps = -(-silo_steps // 2) if split == HALVES else few
        rounds = max(1, round(total / steps))
        schedule = {"decay": "cosine", "decay_rounds": rounds}
        if split == HALVES:
            return FederatedPlan(rounds, steps, self.learning_rate, self.clip_norm, {"schedule": schedule})
        momentum = {"name": "fedavgm", "server_learning_rate": 0.3, "schedule": schedule}
        return FederatedPlan(rounds, steps, self.label_rate, self.clip_norm, momentum)


def recipes(images: int) -> tuple[SiloTraining, ...]:
    """The recipe of each model for so many images of both silos."""
    epochs = min(30, max(10, -(-60_000 // images)))
    return SiloTraining("lenet-5", 0.2, 0.2, epochs), SiloTraining("logistic", 0.2, 0.1, epochs)


MODELS = tuple(recipe.model for recipe in recipes(1))


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One seed of a model and a split; accuracies 0 to 1 on the test images."""

    model: str
    split: str
    seed: int
    alone: tuple[float, ...]
    pooled: float
    federated: float
    rounds: int
    bytes_up: int
    bytes_down: int
    seconds: float


def parts_of(split: str, y: npt.NDArray[np.int64], rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
    """The indices of each silo's examples: random halves, or digits 0 to 4 beside 5 to 9.

    >>> [part.tolist() for part in parts_of(LABELS, np.array([7, 0, 4, 5]), np.random.default_rng(0))]
    [[1, 2], [0, 3]]
    """
    if split == LABELS:
        return [np.flatnonzero(y < CLASSES // 2), np.flatnonzero(y >= CLASSES // 2)]
    return [np.sort(part) for part in np.array_split(rng.permutation(len(y)), 2)]


def run_seed(
    images: Images,
    recipe: SiloTraining,
    split: str,
    seed: int,
    folder: Path,
    hosts: Sequence[SiloHost],
    show: Callable[[RunPart], object],
    made: Callable[[Federation], None] = lambda _federation: None,
    pooled: float | None = None,
) -> StudyRun:
    """Train a model in all arms with one seed.

    ``hosts`` are of the coordinator and of the two silos; without any, the federated arm is trained in this process.
    ``show`` gets each part and how far it is, ``made`` the federation before it starts. ``pooled`` is the
    accuracy of the pooled images if the seed's other split has found it; it is the same.

    Raises:
        UnavailableError: a process died, or a training diverged.
    """
    began_s = time.monotonic()
    folder.mkdir(parents=True)
    parts = [*parts_of(split, images.y, np.random.default_rng([seed, 24])), np.arange(len(images.y))]
    for name, part in zip((*NAMES, "pooled"), parts, strict=True):
        np.savez(folder / f"{name}.npz", x=images.x[part], y=images.y[part])
    np.savez(folder / "test.npz", x=images.test_x, y=images.test_y)
    show(RunPart("exporting the model"))
    with quiet_child(folder / "export.log") as child:
        exporting = child.submit(export, recipe.model, folder / "pooled.npz", folder / "model", seed)
        outcome(exporting, "the export")
    model = exported_model(folder / "model")
    rows = {name: _rows(model, folder / f"{name}.npz") for name in (*NAMES, "pooled", "test")}
    arms = []
    for name in NAMES if pooled is not None else (*NAMES, "pooled"):
        what = f"{name} alone" if name in NAMES else "both silos' images"
        arms.append(_accuracy(model, _trained(model, rows[name], recipe, seed, what, show), rows["test"]))
    plan = recipe.federated(split, len(rows[NAMES[0]]))
    if not hosts:
        weights = train_here(model, {name: rows[name] for name in NAMES}, plan, seed, show)
        sent = 2 * plan.rounds * weights.nbytes
        traffic = {"rounds": plan.rounds, "bytes_up": sent, "bytes_down": sent}
    else:
        federation = Federation(
            folder / "federation",
            folder / "model",
            {name: folder / f"{name}.npz" for name in NAMES},
            plan,
            hosts,
            seed,
        )
        made(federation)

        def watch(state: State) -> None:
            show(RunPart("federated", state["counters"]["rounds_committed"], plan.rounds, "rounds"))

        with stopping(federation.groups):
            federation.start()
            state = federation.train(watch)
            weights = federation.weights(state)
        counted = state["counters"]
        traffic = {"rounds": counted["rounds_committed"]} | {name: counted[name] for name in ("bytes_up", "bytes_down")}
    return StudyRun(
        model=recipe.model,
        split=split,
        seed=seed,
        alone=tuple(arms[:2]),
        pooled=arms[2] if pooled is None else pooled,
        federated=_accuracy(model, weights, rows["test"]),
        seconds=round(time.monotonic() - began_s, 1),
        **traffic,
    )


def _rows(model: Model, path: Path) -> Batches:
    return Classification().held_out(path, model.manifest, (model.program.parent / VOCABULARY).read_bytes())


def _trained(
    model: Model, rows: Batches, recipe: SiloTraining, seed: int, what: str, show: Callable[[RunPart], object]
) -> Vector:
    """Train on all rows with a rate that falls from epoch to epoch, as the server's does in the federated arm."""
    program = load_program(model)
    falling = RateSchedule(decay=Decay.COSINE, decay_rounds=recipe.epochs)
    generator = np.random.default_rng([seed, 25])
    for epoch in range(recipe.epochs):
        show(RunPart(what, epoch, recipe.epochs, "epochs"))
        rate = recipe.learning_rate * rate_share(falling, epoch)
        plan = TrainingPlan(learning_rate=rate, clip_norm=recipe.clip_norm, max_steps=len(rows))
        done = train(program, rows, plan, generator, lambda: False, time.monotonic)
        if not isinstance(done, TrainedUpdate):
            msg = f"training {recipe.model} ended early: {done.detail}"
            raise UnavailableError(msg)
    return program.save()


def _accuracy(model: Model, weights: Vector, rows: Batches) -> float:
    program = load_program(model)
    program.restore(weights)
    found = evaluate(program, rows)
    return found.top1 / found.counted
