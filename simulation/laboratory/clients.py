"""The work of one device in one round: restore the weights, train, encode. The product's own parts, in one call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_agent.core.training import TrainingStopped, train
from edge_agent.ports import Program
from models.batches import Batches
from simulation.warm_start import seeded
from wire.codec import codec_for, with_error_feedback
from wire.errors import UnavailableError
from wire.messages import CodecChoice, TrainingPlan
from wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """What all devices of an executor's process share.

    Attributes:
        program: the device program.
        layout: layout of the n parameters.
        batches: the examples of each person.
        plan: the training plan.
        codec: how updates are encoded.
        seed: root seed of the run.
        folder: of the run; residuals of error feedback are kept there.
    """

    program: Program
    layout: ParameterLayout
    batches: tuple[Batches, ...]
    plan: TrainingPlan
    codec: CodecChoice
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Reported:
    """What a device reports.

    Attributes:
        person: number of the person.
        num_examples: number of targets trained on in one pass.
        loss: mean training loss per target, nats.
        payload: the encoded update.
    """

    person: int
    num_examples: int
    loss: float
    payload: bytes


def train_client(device: Device, person: int, round_number: int, weights: Vector) -> Reported:
    """Train one person's device in a round.

    Raises:
        UnavailableError: the training came to nothing, for instance because it diverged.
    """
    device.program.restore(weights)
    shuffle = seeded(device.seed, "shuffle", round_number, person)
    trained = train(device.program, device.batches[person], device.plan, shuffle, lambda: False, lambda: 0.0)
    if isinstance(trained, TrainingStopped):
        msg = f"person {person} could not train in round {round_number}: {trained.detail}; try a smaller learning rate"
        raise UnavailableError(msg)
    codec, rounding = codec_for(device.codec), seeded(device.seed, "rounding", round_number, person)
    if device.codec.error_feedback:
        feedback = with_error_feedback(codec)
        before = _residual_before(device.folder, person, round_number)
        residual = feedback.init(device.layout) if before is None else np.load(before)
        payload, following = feedback.encode(trained.delta, residual, device.layout, rounding)
        path = residual_path(device.folder, person, round_number)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, following)
    else:
        payload = codec.encode(trained.delta, device.layout, rounding)
    return Reported(person, trained.num_examples, trained.loss, payload)


def residual_path(folder: Path, person: int, round_number: int) -> Path:
    """The file of a person's residual after a round; the number lets a resumed run ignore rounds that were lost."""
    return folder / "residuals" / str(person) / f"{round_number}.npy"


def remove_old_residuals(folder: Path, person: int, round_number: int) -> None:
    """Remove all but a person's newest residual, once the rounds up to a number are safely stored."""
    newest = _residual_before(folder, person, round_number + 1)
    for path in (folder / "residuals" / str(person)).glob("*.npy"):
        if path != newest:
            path.unlink()


def _residual_before(folder: Path, person: int, round_number: int) -> Path | None:
    kept = (folder / "residuals" / str(person)).glob("*.npy")
    return max((path for path in kept if _round_of(path) < round_number), key=_round_of, default=None)


def _round_of(path: Path) -> int:
    return int(path.stem)
