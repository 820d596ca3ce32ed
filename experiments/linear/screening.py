"""All compressors beside a few more rounds of the dense training: how near each comes to its means.

The updates of a round do not depend on the compressor as long as the dense mean is applied, so one training serves all.
It says nothing of what a compressor's errors add up to; that takes a training of its own.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from nightjar.coordinator.learning.fedavg import Aggregate, Combined, Contribution, weighted_mean
from nightjar.coordinator.learning.robust import Collected
from nightjar.experiments.linear.training import Sums, executor_of
from nightjar.experiments.linear.variants import CompressorVariant
from nightjar.host.files import replace_file
from nightjar.simulation.laboratory.checkpoint import CURVE, STATE, Point
from nightjar.simulation.laboratory.training import PreparedTraining, run
from nightjar.wire.parameters import Vector

SCREENED = Path(__file__).parent / "screened.json"


class Screened(msgspec.Struct, frozen=True, kw_only=True):
    """A compressor beside dense means.

    Attributes:
        model: name of the model.
        variant: name of the compressor.
        rounds: how many were played; the cosines are means over the second half of them.
        report_bytes: length of a report's values.
        bytes_down: what a device is sent to encode them.
        cosine: of what is applied to the dense mean of the same devices.
        next_cosine: of what is applied to the dense mean of the next round's devices, as a share of that of the dense
            mean. Cohorts share what the fleet has to learn and not their noise.
    """

    model: str
    variant: str
    rounds: int
    report_bytes: int
    bytes_down: int
    cosine: float
    next_cosine: float


def screened(path: Path = SCREENED) -> list[Screened]:
    """What was screened, by model and bytes."""
    return msgspec.json.decode(path.read_bytes(), type=list[Screened]) if path.exists() else []


def keep(found: Sequence[Screened], path: Path = SCREENED) -> None:
    """Record compressors; those of the same model are replaced."""
    models = {each.model for each in found}
    kept = [*(each for each in screened(path) if each.model not in models), *found]
    kept.sort(key=lambda each: (each.model, each.report_bytes))
    replace_file(path, msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def screen(prepared: PreparedTraining, variants: Sequence[CompressorVariant], dense_folder: Path) -> list[Screened]:
    """Go on with a dense training, and play the compressors beside it.

    Args:
        prepared: the run; its folder is overwritten, and its last round is beyond that of the dense training.
        variants: the compressors.
        dense_folder: folder of the dense training.

    Raises:
        UnavailableError: a device could not train.
    """
    shutil.copy(dense_folder / STATE, prepared.folder / STATE)
    done, last = rounds_of(dense_folder), prepared.experiment.rounds
    beside = {each.name: _sums(each, prepared, done + 1) for each in variants if each.compressor is not None}
    dense: dict[int, Vector] = {}
    applied: dict[str, dict[int, Vector]] = {name: {} for name in beside}

    def combine(number: int, cohort: Sequence[Contribution], size: int) -> Combined:
        mean = weighted_mean(cohort, size)
        means = {name: sums.combine(number, cohort, size).mean for name, sums in beside.items()}
        if number > (done + last) // 2:
            dense[number] = mean.astype(np.float32)
            for name, each in means.items():
                applied[name][number] = each.astype(np.float32)
        return Combined(mean)

    def aggregate(number: int) -> Aggregate:
        return partial(Collected, partial(combine, number))

    run(prepared, executor_of(prepared), aggregate=aggregate)
    best = _next(dense, dense)
    return [
        Screened(
            model=prepared.experiment.model,
            variant=name,
            rounds=last - done,
            report_bytes=sums.cost(last + 1)[0],
            bytes_down=sums.cost(last + 1)[1],
            cosine=round(float(np.mean([_cosine(applied[name][number], dense[number]) for number in dense])), 3),
            next_cosine=round(_next(applied[name], dense) / best, 3),
        )
        for name, sums in beside.items()
    ]


def rounds_of(folder: Path) -> int:
    """How many rounds a training has had."""
    return msgspec.json.Decoder(Point).decode_lines((folder / CURVE).read_bytes())[-1].round


def _sums(variant: CompressorVariant, prepared: PreparedTraining, first: int) -> Sums:
    assert variant.compressor is not None
    folder = prepared.folder / variant.name
    folder.mkdir(parents=True, exist_ok=True)
    return Sums(variant.compressor, variant.bits, replace(prepared, folder=folder), first)


def _next(applied: Mapping[int, Vector], dense: Mapping[int, Vector]) -> float:
    return float(np.mean([_cosine(applied[number - 1], dense[number]) for number in dense if number - 1 in applied]))


def _cosine(a: Vector, b: Vector) -> float:
    return float(a @ b) / max(math.sqrt(float(a @ a) * float(b @ b)), 1e-30)
