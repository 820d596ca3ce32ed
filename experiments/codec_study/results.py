"""Stores finished trainings, one JSON line each, and summarises them.

A training is stored when it is finished, and identified by its key, so a stopped study can continue and several calls
can share one file.
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

from nightjar.experiments.codec_study.variants import DENSE
from nightjar.wire.errors import ConfigError, UnavailableError


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics of the model after a number of rounds."""

    round: int
    nll: float
    """Mean cross-entropy per target on the held-out messages, nats."""
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
    """Ascending by round, from the initial model to the final one."""
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """Identifies the training."""
        return self.corpus, self.population, self.variant, self.seed, self.rounds


def append(path: Path, training: FinishedTraining) -> None:
    """Append a training to a file, which is created if missing.

    Raises:
        UnavailableError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(training) + b"\n")
    except OSError as error:
        msg = f"cannot write the training to {path}: {error.strerror or error}"
        raise UnavailableError(msg) from error


def read(path: Path) -> list[FinishedTraining]:
    """All trainings in a file; none if the file is missing.

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
    """A metric over seeds.

    Attributes:
        mean: mean over the seeds.
        deviation: sample standard deviation; 0 for one seed.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> SeedSpread:
        """From one value per seed.

        >>> SeedSpread.of([1.0, 3.0])
        SeedSpread(mean=2.0, deviation=1.4142135623730951)
        """
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class VariantOutcome:
    """Metrics of one variant in one population after the last round, over seeds.

    Attributes:
        population: name of the population.
        variant: name of the variant.
        seeds: number of trainings.
        report_bytes: median over the reports, mean over the seeds.
        nll: mean cross-entropy per target, nats.
        gap: difference in nll to the dense training of the same seed, nats; unlike ``share`` independent of the start.
        share: decrease in nll relative to that of the dense training from the same start; 1 if equal.
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
    """Each population and variant, in the order of the trainings; seeds without a dense training are skipped."""
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
    """A ratio; NaN if the dense training did not change the loss."""
    return part / whole if whole else math.nan


def table(found: Sequence[VariantOutcome]) -> Table:
    """The outcomes as a Markdown table."""
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
