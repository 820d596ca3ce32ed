"""The work of one device in one round: restore the weights, train, encode. The product's own parts, in one call.

What a device sends is decoded nowhere: the codec says what the receiver would read. So the bytes, which cost half as
much again as the training of a small model, are written only in rounds that are measured.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nightjar.edge_agent.core.training import TrainedUpdate, TrainingStopped, train
from nightjar.edge_agent.ports import Program
from nightjar.models.batches import Batches
from nightjar.simulation.laboratory.experiment import PRIVATE, PersonalSettings
from nightjar.simulation.warm_start import seeded
from nightjar.wire.codec import Codec, FeedbackCodec, Sparse, codec_for
from nightjar.wire.codec.contract import Received
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import CodecChoice, TrainingPlan
from nightjar.wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """What all devices of an executor's process share."""

    program: Program
    layout: ParameterLayout
    batches: tuple[Batches, ...]  # the examples of each person
    plan: TrainingPlan
    codec: CodecChoice
    seed: int
    personal: PersonalSettings  # what each person's device learns for its owner alone


class DeviceMemory(NamedTuple):
    """What a person's device keeps from round to round; None if there is nothing."""

    residual: Vector | None = None  # (n,) float32, of the error feedback
    own: Vector | None = None  # float32, the person's own parameters: (n,), or those of PRIVATE alone

    @property
    def nbytes(self) -> int:
        """Their size."""
        return sum(each.nbytes for each in self if each is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Reported:
    """What a device reports."""

    person: int
    num_examples: int  # targets trained on in one pass
    loss: float  # mean training loss per target, nats
    update: Sparse | Vector  # as the coordinator reads it; (n,) float32 if it has every entry
    payload: bytes | None  # the encoded update; None in a round that is not measured


def train_client(
    device: Device, person: int, round_number: int, weights: Vector, before: DeviceMemory, *, measured: bool
) -> tuple[Reported, DeviceMemory]:
    """Train one person's device in a round, from the weights (n,) float32 of the version before.

    Returns:
        The report, with the payload if the round is measured, and what the device keeps now.

    Raises:
        UnavailableError: the training came to nothing, for instance because it diverged.
    """
    fedper = device.personal.method == "fedper"
    start = own_weights(device.layout, weights, before.own) if fedper else weights
    device.program.restore(start)
    shuffle = seeded(device.seed, "shuffle", round_number, person)
    trained = train(device.program, device.batches[person], device.plan, shuffle, lambda: False, lambda: 0.0)
    if isinstance(trained, TrainingStopped):
        raise could_not_train(person, round_number, trained.detail)
    delta, own = trained.delta, before.own
    if fedper:
        private = private_part(device.layout)
        own, delta = start[private] + delta[private], delta.copy()
        delta[private] = 0.0  # it never leaves the device
    elif device.personal.method == "ditto":
        own = _ditto(device, person, weights, weights if own is None else own)
    trained = replace(trained, delta=delta)
    reported, residual = report(device, person, round_number, trained, before.residual, measured=measured)
    return reported, DeviceMemory(residual, own)


def could_not_train(person: int, round_number: int, why: str) -> UnavailableError:
    """The error of a training that came to nothing."""
    return UnavailableError(
        f"person {person} could not train in round {round_number}: {why}; try a smaller learning rate"
    )


def report(
    device: Device, person: int, round_number: int, trained: TrainedUpdate, residual: Vector | None, *, measured: bool
) -> tuple[Reported, Vector | None]:
    """Encode what a device has learned, as :func:`train_client` does at its end.

    Returns:
        The report, and the residual (n,) of the error feedback that the device keeps now; None without.
    """
    codec, rounding = codec_for(device.codec), seeded(device.seed, "rounding", round_number, person)
    following = None
    if device.codec.error_feedback:
        feedback = FeedbackCodec(codec)
        residual = feedback.init(device.layout) if residual is None else residual
        encoded, following = feedback.write(trained.delta, residual, device.layout, rounding)
    else:
        encoded = codec.write(trained.delta, device.layout, rounding)
    sent, payload = encoded.sent, encoded.payload() if measured else None
    update = sent.values if sent.indices.size == sent.size else sent
    return Reported(person, trained.num_examples, trained.loss, update, payload), following


def as_read(updates: Mapping[bytes, Sparse | Vector], codec: Codec) -> Codec:
    """The codec, but that it reads a device's name as the update that the device says will be read."""
    every = functools.cache(np.arange)  # of a dense update, the same for all

    def read(name: bytes, _layout: ParameterLayout) -> Received:
        found = updates[name]
        update = found if isinstance(found, Sparse) else Sparse(found.size, every(found.size), found)
        return Received(np.nan, lambda: update)  # nobody asks for its norm: that is of payloads as they come in

    return replace(codec, read=read)


def own_weights(layout: ParameterLayout, weights: Vector, own: Vector | None) -> Vector:
    """A person's model: the fleet's weights (n,) with the person's own parameters, if there are any, in their place."""
    if own is None or own.size == layout.size:
        return weights if own is None else own
    mixed = weights.copy()
    mixed[private_part(layout)] = own
    return mixed


def private_part(layout: ParameterLayout) -> slice:
    """Where the parameter is that FedPer keeps on the devices."""
    return next(slice(start, stop) for spec, start, stop in layout.spans() if spec.name == PRIVATE)


def _ditto(device: Device, person: int, weights: Vector, own: Vector) -> Vector:
    """The person's own model after a round: each step of SGD also pulls it to the fleet's weights (algorithm 1)."""
    rate = np.float32(device.plan.learning_rate)
    for _ in range(device.plan.local_epochs):
        for x, y in device.batches[person]:
            device.program.restore(own)
            device.program.train(x, y, device.plan.learning_rate, device.plan.clip_norm)
            own = device.program.save() - rate * np.float32(device.personal.pull) * (own - weights)
    return own


def kept(folder: Path, person: int, round_number: int) -> DeviceMemory:
    """What a person's device kept before a round, from the folder of the run."""
    paths = [_newest_before(folder, what, person, round_number) for what in DeviceMemory._fields]
    return DeviceMemory(*(None if path is None else np.load(path) for path in paths))


def keep(folder: Path, person: int, round_number: int, now: DeviceMemory) -> None:
    """Keep it after a round; the number in a file's name lets a resumed run ignore rounds that were lost."""
    for what, vector in zip(DeviceMemory._fields, now, strict=True):
        if vector is not None:
            path = _folder(folder, what, person) / f"{round_number}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, vector)


def remove_old(folder: Path, person: int, round_number: int) -> None:
    """Remove all but the newest files of a person, once the rounds up to a number are safely stored."""
    for what in DeviceMemory._fields:
        newest = _newest_before(folder, what, person, round_number + 1)
        for path in _folder(folder, what, person).glob("*.npy"):
            if path != newest:
                path.unlink()


def _newest_before(folder: Path, what: str, person: int, round_number: int) -> Path | None:
    files = _folder(folder, what, person).glob("*.npy")
    return max((path for path in files if _round_of(path) < round_number), key=_round_of, default=None)


def _folder(folder: Path, what: str, person: int) -> Path:
    return folder / f"{what}s" / str(person)


def _round_of(path: Path) -> int:
    return int(path.stem)
