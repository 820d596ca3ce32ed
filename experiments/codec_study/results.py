"""Finished trainings: one JSON line each, and what they come to.

A training is written when it is finished and found again by its name, so a stopped study goes on where it was, and the
trainings of several calls can lie in one file.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from rich import box
from rich.table import Table

from experiments.codec_study.variants import DENSE
from wire.errors import ConfigError, UnavailableError


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How good the model is after a number of rounds."""

    round: int
    nll: float
    """Mean cross-entropy per target of the held-out messages, nats."""
    top1: float
    top3: float


class FinishedTraining(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finished training."""

    corpus: str
    population: str
    variant: str
    seed: int
    rounds: int
    report_bytes: float
    """Median of ``len(frame)`` over all reports."""
    curve: tuple[CurvePoint, ...]
    """The start first, the end last."""
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """What it is found again by."""
        return self.corpus, self.population, self.variant, self.seed, self.rounds


def append(path: Path, training: FinishedTraining) -> None:
    """Add one line to a file of trainings; made if missing.

    Raises:
        UnavailableError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(training) + b"\n")
    except OSError as error:
        msg = f"cannot write the training to {path}: {error.strerror or error}"
        raise UnavailableError(msg) from error


def read(path: Path) -> list[FinishedTraining]:
    """All trainings of a file; none if there is no such file.

    Raises:
        ConfigError: a line is not a training.
    """
    if not path.exists():
        return []
    try:
        return msgspec.json.Decoder(FinishedTraining).decode_lines(path.read_bytes())
    except OSError as error:
        msg = f"cannot read the trainings in {path}: {error.strerror or error}"
        raise ConfigError(msg) from error
    except msgspec.DecodeError as error:
        msg = f"{path}: expected a finished training in each line, {error}; remove that line, or give another file"
        raise ConfigError(msg) from error


@dataclass(frozen=True, slots=True)
class SeedSpread:
    """A figure over seeds.

    Attributes:
        mean: over the seeds.
        deviation: sample standard deviation; 0 for one seed.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> SeedSpread:
        """From one value a seed.

        >>> SeedSpread.of([1.0, 3.0])
        SeedSpread(mean=2.0, deviation=1.4142135623730951)
        """
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class VariantOutcome:
    """One variant in one population, over seeds, at the last round.

    Attributes:
        population: its name.
        variant: its name.
        seeds: how many trainings.
        report_bytes: median over the reports, mean over the seeds.
        nll: nats.
        gap: nats above the dense training of the same seed; unlike share it does not depend on where the start lay.
        share: of the dense training's fall in nll from the same start, 1 for as much.
        top1: recall, 0 to 1.
        top3: recall, 0 to 1.
    """

    population: str
    variant: str
    seeds: int
    report_bytes: float
    nll: SeedSpread
    gap: SeedSpread
    share: SeedSpread
    top1: SeedSpread
    top3: SeedSpread


def outcomes(trainings: Iterable[FinishedTraining]) -> list[VariantOutcome]:
    """Each population and variant, in the order of the trainings; seeds without a dense training are left out."""
    groups: dict[tuple[str, str], list[FinishedTraining]] = {}
    for training in trainings:
        groups.setdefault((training.population, training.variant), []).append(training)
    dense = {(t.population, t.seed, t.rounds): t for (_, name), g in groups.items() if name == DENSE.name for t in g}
    found = []
    for group in groups.values():
        pairs = [(t, dense[t.population, t.seed, t.rounds]) for t in group if (t.population, t.seed, t.rounds) in dense]
        if pairs:
            found.append(_outcome(pairs))
    return found


def _outcome(pairs: Sequence[tuple[FinishedTraining, FinishedTraining]]) -> VariantOutcome:
    first = pairs[0][0]
    ends = [(training.curve[0], training.curve[-1], dense.curve[-1]) for training, dense in pairs]
    return VariantOutcome(
        population=first.population,
        variant=first.variant,
        seeds=len(pairs),
        report_bytes=statistics.fmean(training.report_bytes for training, _ in pairs),
        nll=SeedSpread.of([end.nll for _, end, _ in ends]),
        gap=SeedSpread.of([end.nll - best.nll for _, end, best in ends]),
        share=SeedSpread.of([_share(start.nll - end.nll, start.nll - best.nll) for start, end, best in ends]),
        top1=SeedSpread.of([end.top1 for _, end, _ in ends]),
        top3=SeedSpread.of([end.top3 for _, end, _ in ends]),
    )


def _share(part: float, whole: float) -> float:
    """NaN where the dense training stayed where it was: there is nothing to have a share of."""
    return part / whole if whole else math.nan


def table(found: Sequence[VariantOutcome]) -> Table:
    """For people, and ready for a Markdown page."""
    rows = Table(box=box.MARKDOWN)
    for name in ("population", "variant"):
        rows.add_column(name)
    for name in ("seeds", "bytes a report", "nll", "above dense", "share of its fall", "top-1 %", "top-3 %"):
        rows.add_column(name, justify="right")
    for row in found:
        rows.add_row(
            row.population,
            row.variant,
            str(row.seeds),
            f"{row.report_bytes:,.0f}",
            _cell(row.nll, 3),
            _cell(row.gap, 3),
            _cell(row.share, 2),
            _cell(row.top1, 1, 100),
            _cell(row.top3, 1, 100),
        )
    return rows


def _cell(spread: SeedSpread, digits: int, scale: float = 1.0) -> str:
    return f"{scale * spread.mean:.{digits}f} ± {scale * spread.deviation:.{digits}f}"
