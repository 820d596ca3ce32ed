"""The compressors under comparison."""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.experiments.linear.contract import Compressor
from nightjar.experiments.linear.coordinates import Choice, Coordinates
from nightjar.experiments.linear.dense import Whole
from nightjar.experiments.linear.low_rank import LowRank
from nightjar.experiments.linear.rotation import Rotated
from nightjar.experiments.linear.sketch import TABLES, CountSketch
from nightjar.wire.secure_sum.low_rank import Rank

COHORT = 100
"""Devices whose sum must fit a number; fewer are trained."""


@dataclass(frozen=True, slots=True)
class CompressorVariant:
    """A compressor.

    Attributes:
        name: identifies it in tables and folders.
        compressor: None sends float32, which cannot be summed secretly: what the others are compared with.
        bits: of a summed number.
    """

    name: str
    compressor: Compressor | None
    bits: int = 11


def low_rank(rows: int, right: int, left: int, bits: int = 11) -> CompressorVariant:
    """Low rank, named after its numbers.

    >>> low_rank(3000, 4, 8).name
    'low-rank-3000-4-8'
    """
    name = f"low-rank-{rows}-{right}-{left}" + ("" if bits == 11 else f"-{bits}-bits")
    return CompressorVariant(name, LowRank(Rank(rows=rows, right=right, left=left)), bits)


def _coordinates(share: float, choice: Choice) -> CompressorVariant:
    return CompressorVariant(f"{choice.value}-{100 * share:g}", Coordinates(share, choice))


DENSE = CompressorVariant("dense-f32", None)
TINY = (
    DENSE,
    low_rank(2000, 2, 8),
    low_rank(600, 4, 8),
    *(_coordinates(0.04, choice) for choice in Choice),
    CompressorVariant("rotated-4", Rotated(0.04)),
    CompressorVariant("sketch-4", CountSketch(round(0.04 * 185_728 / TABLES), applied=1_857)),
    low_rank(2000, 1, 4),
    CompressorVariant("dense-8-bits", Whole(), 8),
    low_rank(2000, 8, 16),
    low_rank(2000, 2, 8, 9),
)
GBOARD = (
    DENSE,
    low_rank(10_000, 2, 8),
    low_rank(3000, 4, 8),
    low_rank(10_000, 1, 4),
    *(_coordinates(0.025, choice) for choice in Choice),
    CompressorVariant("rotated-2.5", Rotated(0.025)),
    CompressorVariant("sketch-2.5", CountSketch(round(0.025 * 1_412_250 / TABLES), applied=14_122)),
)
"""Of about 48 kB, and smaller ones."""
VARIANTS = {"tiny": TINY, "gboard": GBOARD}
