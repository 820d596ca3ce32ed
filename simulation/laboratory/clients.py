"""The work of one device in one round: restore the weights, train, encode. The product's own parts, in one call.

What a device sends is decoded nowhere: the codec says what the receiver would read. So the bytes, which cost half as
much again as the training of a small model, are written only in rounds that are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coordinator.learning.fedavg import norm_of
from edge_agent.core.training import TrainingStopped, train
from edge_agent.ports import Program
from models.batches import Batches
from simulation.warm_start import seeded
from wire.codec import Codec, Sparse, codec_for, with_error_feedback
from wire.codec.contract import Received
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
    """

    program: Program
    layout: ParameterLayout
    batches: tuple[Batches, ...]
    plan: TrainingPlan
    codec: CodecChoice
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Reported:
    """What a device reports.

    Attributes:
        person: number of the person.
        num_examples: number of targets trained on in one pass.
        loss: mean training loss per target, nats.
        update: as the coordinator reads it; (n,) float32 if it has every entry.
        payload: the encoded update; None in a round that is not measured.
    """

    person: int
    num_examples: int
    loss: float
    update: Sparse | Vector
    payload: bytes | None


def train_client(
    device: Device, person: int, round_number: int, weights: Vector, residual: Vector | None, *, measured: bool
) -> tuple[Reported, Vector | None]:
    """Train one person's device in a round.

    Args:
        device: runs the program.
        person: number of the person.
        round_number: number of the round.
        weights: (n,) float32, of the version before.
        residual: (n,) float32, of the person's error feedback; None if there is none yet.
        measured: whether the payload is wanted.

    Returns:
        The report and the next residual, which is None without error feedback.

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
    following = None
    if device.codec.error_feedback:
        feedback = with_error_feedback(codec)
        before = feedback.init(device.layout) if residual is None else residual
        encoded, following = feedback.write(trained.delta, before, device.layout, rounding)
    else:
        encoded = codec.write(trained.delta, device.layout, rounding)
    sent, payload = encoded.sent, encoded.payload() if measured else None
    update = sent.values if sent.indices.size == sent.size else sent
    return Reported(person, trained.num_examples, trained.loss, update, payload), following


def as_read(updates: Mapping[bytes, Sparse | Vector], codec: Codec) -> Codec:
    """The codec, but that it reads a device's name as the update that the device says will be read."""

    def read(name: bytes, _layout: ParameterLayout) -> Received:
        found = updates[name]
        update = found if isinstance(found, Sparse) else Sparse(found.size, np.arange(found.size), found)
        return Received(norm_of(update), lambda: update)

    return replace(codec, read=read)


def kept_residual(folder: Path, person: int, round_number: int) -> Vector | None:
    """A person's residual before a round, from the folder of the run; None if there is none."""
    path = _residual_before(folder, person, round_number)
    return None if path is None else np.load(path)


def keep_residual(folder: Path, person: int, round_number: int, residual: Vector | None) -> None:
    """Keep a person's residual after a round in the folder of the run, if there is one."""
    if residual is not None:
        path = residual_path(folder, person, round_number)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, residual)


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
