"""What the folder of a run holds: its experiment, its curve, and the checkpoint from which it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nightjar.coordinator.learning.strategies import State as OptimizerState
from nightjar.coordinator.learning.strategies import Wide
from nightjar.host.files import replace_file
from nightjar.simulation.laboratory.experiment import Experiment
from nightjar.simulation.laboratory.gate import Gate
from nightjar.wire.errors import ConfigError, UnavailableError
from nightjar.wire.parameters import Vector

ABOUT, CURVE, STATE = "experiment.json", "metrics.jsonl", "checkpoint.npz"
_OLDER = "version-"
_GATE, _ANNOUNCED, _ANNOUNCED_OPTIMIZER = "gate", "announced", "announced-optimizer"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The model after a round."""

    round: int  # number of the round; 0 is the start
    loss: float  # mean cross-entropy per target, nats
    top1: float  # recall of the best suggestion, 0 to 1
    top3: float  # recall of the best three, 0 to 1
    held_out_top1: float | None = None  # the same on people who never train; None if nobody is held out
    held_out_top3: float | None = None  # the same
    train_loss: float | None = None  # mean over the round's devices, nats; None at the start
    report_bytes: int | None = None  # median length of the round's reports; None at the start
    bytes_down: int | None = None  # what a device with the weights before the round downloads
    hours: float | None = None  # from the start; None, as the next two, if nothing takes time
    device_seconds: float | None = None  # time that devices have worked until then, seconds
    wasted_seconds: float | None = None  # of these, the time of work whose report did not count

    def time_spent(self) -> tuple[float | None, float | None, float | None]:
        """Hours, device seconds and wasted seconds."""
        return self.hours, self.device_seconds, self.wasted_seconds


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a run is between two rounds.

    Weights, optimizer, clip norm, the downlink's residual, average weights, average and bases of the sums, losses, and
    the weights of older versions that devices still work from, by number. With a gate, which version is announced, and
    its weights and optimizer.
    """

    weights: Vector
    optimizer: OptimizerState
    clip_norm: float | None
    residual: Wide
    mean: Wide
    summed: Vector
    bases: bytes
    losses: Wide
    curve: tuple[Point, ...]
    older: Mapping[int, Vector]
    gate: Gate | None = None
    announced: Vector | None = None
    announced_optimizer: OptimizerState | None = None


def restored_weights(folder: Path) -> Vector:
    """The weights that the last measurement of a run is of.

    Raises:
        UnavailableError: the run has not ended a round.
    """
    state = restored(folder)
    if state is None or not state.curve[-1].round:
        msg = f"{folder} has no trained weights: run the experiment first"
        raise UnavailableError(msg)
    if state.announced is not None:
        return state.announced
    return state.mean.astype(np.float32)


class About(msgspec.Struct, frozen=True):
    """What the folder of a run says of it: its seed and its experiment."""

    seed: int
    experiment: Experiment


def about(folder: Path) -> About:
    """What a run's folder says of it.

    Raises:
        ConfigError: it is not the folder of a run.
    """
    path = folder / ABOUT
    try:
        return msgspec.json.decode(path.read_bytes(), type=About)
    except (OSError, msgspec.DecodeError) as error:
        msg = f"{folder} is not the folder of a run, such as build/learn/seed-1: {error}"
        raise ConfigError(msg) from error


def opened(folder: Path, experiment: Experiment, seed: int) -> Path:
    """The folder of a run, with the experiment in it; refuses to continue another experiment.

    With more rounds it is the same one, but not with differential privacy: its noise depends on their number.
    """
    said = msgspec.json.format(msgspec.json.encode(About(seed, experiment)), indent=2) + b"\n"
    path = folder / ABOUT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            found = about(folder)
            rounds = found.experiment.rounds
            if not experiment.privacy.noised:
                rounds = max(rounds, experiment.rounds)
            if About(found.seed, msgspec.structs.replace(found.experiment, rounds=rounds)) != About(seed, experiment):
                msg = f"{folder} holds another experiment or seed: give another --out, or remove it"
                raise ConfigError(msg)
        replace_file(path, said)
    except OSError as error:
        msg = f"cannot write to {folder}: {error}; give a folder that can be written"
        raise UnavailableError(msg) from error
    return folder


def store(folder: Path, state: State) -> None:
    """Write the checkpoint, then the curve; a run that is killed in between has the older of the two at worst."""
    further: dict[str, Any] = {f"{_OLDER}{number}": weights for number, weights in state.older.items()}
    if state.gate is not None:
        further[_GATE] = np.frombuffer(msgspec.json.encode(state.gate), np.uint8)
        further |= {_ANNOUNCED: state.announced, _ANNOUNCED_OPTIMIZER: state.announced_optimizer}
    lines = b"".join(msgspec.json.encode(point) + b"\n" for point in state.curve)
    new = folder / f"new-{STATE}"
    try:
        np.savez(
            new,
            weights=state.weights,
            optimizer=state.optimizer,
            clip_norm=np.array([np.nan if state.clip_norm is None else state.clip_norm]),
            residual=state.residual,
            mean=state.mean,
            summed=state.summed,
            bases=np.frombuffer(state.bases, np.uint8),
            losses=state.losses,
            curve=np.frombuffer(lines, np.uint8),
            **further,
        )
        new.replace(folder / STATE)
        replace_file(folder / CURVE, lines)
    except OSError as error:
        msg = f"cannot write to {folder}: {error}; the last checkpoint is kept"
        raise UnavailableError(msg) from error


def restored(folder: Path) -> State | None:
    """The checkpoint in a run's folder; None if there is none yet.

    Raises:
        ConfigError: it cannot be read.
    """
    path = folder / STATE
    if not path.exists():
        return None
    try:
        with np.load(path) as kept:
            clip_norm = float(kept["clip_norm"][0])
            lines = kept["curve"].tobytes().splitlines()
            return State(
                weights=kept["weights"],
                optimizer=kept["optimizer"],
                clip_norm=None if np.isnan(clip_norm) else clip_norm,
                residual=kept["residual"],
                mean=kept["mean"],
                summed=kept["summed"],
                bases=kept["bases"].tobytes(),
                losses=kept["losses"],
                curve=tuple(msgspec.json.decode(line, type=Point) for line in lines),
                gate=msgspec.json.decode(kept[_GATE].tobytes(), type=Gate) if _GATE in kept else None,
                announced=kept.get(_ANNOUNCED),
                announced_optimizer=kept.get(_ANNOUNCED_OPTIMIZER),
                older={int(name.removeprefix(_OLDER)): kept[name] for name in kept if name.startswith(_OLDER)},
            )
    except (OSError, ValueError, KeyError, msgspec.DecodeError) as error:
        msg = f"{path} cannot be read ({error}): remove {folder} to begin anew"
        raise ConfigError(msg) from error
