"""The work of one device in one round: restore the weights, train, encode. The product's own parts, in one call.

What a device sends is decoded nowhere: the codec says what the receiver would read. So the bytes, which cost half as
much again as the training of a small model, are written only in rounds that are measured.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.core.training import TrainedUpdate, train
from nightjar.edge_agent.ports import Program
from nightjar.models.batches import Batches
from nightjar.simulation.laboratory.experiment import PRIVATE, PersonalSettings
from nightjar.simulation.warm_start import seeded
from nightjar.wire.codec import Codec, Sparse, codec_for
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


@dataclass(frozen=True, slots=True, eq=False)
class Reported:
    """What a device reports."""

    person: int
    num_examples: int  # targets trained on in one pass
    loss: float  # mean training loss per target, nats
    update: Sparse | Vector  # as the coordinator reads it; (n,) float32 if it has every entry
    payload: bytes | None  # the encoded update; None in a round that is not measured


def train_client(
    device: Device, person: int, round_number: int, weights: Vector, own: Vector | None, *, measured: bool
) -> tuple[Reported, Vector | None]:
    """Train one person's device in a round, from the weights (n,) float32 of the version before.

    ``own`` is what the device kept from the rounds before: the person's own parameters, float32, (n,) or those of
    PRIVATE alone; None if there are none.

    Returns:
        The report, with the payload if the round is measured, and what the device keeps now.

    Raises:
        UnavailableError: the training came to nothing, for instance because it diverged.
    """
    fedper = device.personal.method == "fedper"
    start = own_weights(device.layout, weights, own) if fedper else weights
    device.program.restore(start)
    shuffle = seeded(device.seed, "shuffle", round_number, person)
    trained = train(device.program, device.batches[person], device.plan, shuffle, lambda: False, lambda: 0.0)
    if isinstance(trained, TrainingStopped):
        raise could_not_train(person, round_number, trained.detail)
    delta = trained.delta
    if fedper:
        private = private_part(device.layout)
        own, delta = start[private] + delta[private], delta.copy()
        delta[private] = 0.0  # it never leaves the device
    elif device.personal.method == "ditto":
        own = _ditto(device, person, weights, weights if own is None else own)
    return report(device, person, round_number, replace(trained, delta=delta), measured=measured), own


def could_not_train(person: int, round_number: int, why: str) -> UnavailableError:
    """The error of a training that came to nothing."""
    return UnavailableError(
        f"person {person} could not train in round {round_number}: {why}; try a smaller learning rate"
    )


def report(device: Device, person: int, round_number: int, trained: TrainedUpdate, *, measured: bool) -> Reported:
    """Encode what a device has learned, as :func:`train_client` does at its end."""
    rounding = seeded(device.seed, "rounding", round_number, person)
    encoded = codec_for(device.codec).write(trained.delta, device.layout, rounding)
    sent, payload = encoded.sent, encoded.payload() if measured else None
    update = sent.values if sent.indices.size == sent.size else sent
    return Reported(person, trained.num_examples, trained.loss, update, payload)


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


def kept(folder: Path, person: int, round_number: int) -> Vector | None:
    """The person's own parameters that their device kept before a round, from the folder of the run, if there are any.

    They are float32, (n,) or those of PRIVATE alone.
    """
    path = _newest_before(folder, person, round_number)
    return None if path is None else np.load(path)


def keep(folder: Path, person: int, round_number: int, own: Vector | None) -> None:
    """Keep them after a round; the number in a file's name lets a resumed run ignore rounds that were lost."""
    if own is not None:
        path = _folder(folder, person) / f"{round_number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, own)


def remove_old(folder: Path, person: int, round_number: int) -> None:
    """Remove all but the newest file of a person, once the rounds up to a number are safely stored."""
    newest = _newest_before(folder, person, round_number + 1)
    for path in _folder(folder, person).glob("*.npy"):
        if path != newest:
            path.unlink()


def _newest_before(folder: Path, person: int, round_number: int) -> Path | None:
    files = _folder(folder, person).glob("*.npy")
    return max((path for path in files if _round_of(path) < round_number), key=_round_of, default=None)


def _folder(folder: Path, person: int) -> Path:
    return folder / "owns" / str(person)


def _round_of(path: Path) -> int:
    return int(path.stem)
