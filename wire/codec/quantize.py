"""Quantisation of values: each becomes a level from -most to most on a grid that a few bytes describe.

There are two grids: *uniform*, with equally spaced points, and *logarithmic*, with a constant ratio between neighbours.
The magnitudes that top-k keeps span one or two decades and are densest at the small end, so with few bits the
logarithmic grid has the smaller error. There are two ways to round: to the *nearest* point, or *stochastically* to one
of the two neighbours, so that the expectation is the value itself and the errors of different devices cancel in the
mean.

No logarithm is computed: a grid is found by comparisons and correctly rounded float64 arithmetic, so that every machine
finds the same grid. (In float32, a 32-bit ARM treats the smallest numbers as zero.)

Source: Alistarh et al. 2017 (QSGD), section 3.1, for stochastic rounding on a uniform grid.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.wire.parameters import Vector

Ints = npt.NDArray[np.int64]
Wide = npt.NDArray[np.float64]

OCTAVE = 1024
"""Steps per octave: ratios of neighbours on a logarithmic grid are powers of 2**(1 / 1024)."""
_FINE = tuple(itertools.accumulate([1.0] + [1.000677130693066357] * (OCTAVE - 1), lambda a, b: a * b))
"""2**(i / 1024), by repeated multiplication with 2**(1 / 1024): correctly rounded, so the same on every machine."""

_FLOAT32_STEPS = 149
"""Every float32 is an integer multiple of 2**-149."""


def most_for(bits: int) -> int:
    """Largest magnitude of a level with the given number of bits, including the sign and zero.

    >>> most_for(8), most_for(4), most_for(2)
    (127, 7, 1)
    """
    return (1 << (bits - 1)) - 1


@dataclass(frozen=True, slots=True)
class Uniform:
    """Points ``level * scale / most``."""

    scale: float  # largest magnitude, finite, >= 0; representable as float32
    most: int  # level of the largest magnitude

    def magnitudes(self) -> Wide:
        """The magnitude of each level: (most + 1,) float64, ascending from 0."""
        return np.arange(self.most + 1, dtype=np.float64) * (self.scale / self.most)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Zero, and points ``least * 2**((level - 1) * ratio / 1024)``."""

    least: float  # magnitude of level 1, finite, >= 0; representable as float32
    ratio: int  # ratio of neighbours, in 1024ths of an octave, 0 to 1024
    most: int  # the largest level

    def magnitudes(self) -> Wide:
        """The magnitude of each level: (most + 1,) float64, ascending from 0."""
        powers = [_power(self.ratio * step) for step in range(self.most)]
        # The last point may exceed the float32 range if the largest value is near its end.
        largest = float(np.finfo(np.float32).max)
        return np.array([0.0, *(min(self.least * power, largest) for power in powers)], np.float64)


Grid = Uniform | Logarithmic


def uniform_grid(values: Vector, bits: int) -> Uniform:
    """The uniform grid of 2 to 8 bits that extends to the largest magnitude of the finite values."""
    return Uniform(float(np.abs(values.astype(np.float64)).max(initial=0)), most_for(bits))


def logarithmic_grid(values: Vector, bits: int, *, reach: bool = False) -> Logarithmic:
    """The logarithmic grid of 2 to 8 bits for some finite values.

    The range of the magnitudes is divided into ``most`` parts of equal ratio, each with its point in the middle. A
    single point is the mean. With ``reach`` the outermost points are on the outermost magnitudes instead, as stochastic
    rounding requires.
    """
    most = most_for(bits)
    magnitudes = np.abs(values.astype(np.float64))
    magnitudes = magnitudes[magnitudes > 0]
    if magnitudes.size == 0:
        return Logarithmic(0.0, 0, most)
    low, high = float(magnitudes.min()), float(magnitudes.max())
    if most == 1:
        middle = high if reach else math.fsum(magnitudes.tolist()) / magnitudes.size
        return Logarithmic(float(np.float32(middle)), 0, 1)
    parts = most - 1 if reach else most
    low = max(low, high * 2.0**-parts)
    # The smallest ratio that reaches; at most an octave: lower values are rounded to the lowest point or to zero.
    ratio = bisect.bisect_left(range(OCTAVE), True, key=lambda ratio: low * _power(ratio * parts) >= high)
    least = high / _power(ratio * parts) if reach else low * _power(ratio // 2)
    point = np.float32(least)
    if reach and float(point) * _power(ratio * parts) < high:
        point = np.nextafter(point, np.float32(np.inf))
    return Logarithmic(float(point), ratio, most)


def reaching_grid(low: float, high: float, bits: int) -> Logarithmic:
    """The logarithmic grid of 2 to 8 bits whose first point is ``low``, a float32, and whose last one reaches ``high``.

    Its ratio is the smallest from 1 that reaches, so that ``low`` is level 1 and no other; ``high`` is at most ``low``
    times 2**(most - 1).

    >>> reaching_grid(0.5, 32.0, 4), reaching_grid(0.5, 0.5, 4)
    (Logarithmic(least=0.5, ratio=1024, most=7), Logarithmic(least=0.5, ratio=1, most=7))
    """
    most = most_for(bits)
    ratios = range(1, OCTAVE)
    return Logarithmic(
        low, 1 + bisect.bisect_left(ratios, True, key=lambda r: low * _power(r * (most - 1)) >= high), most
    )


def quantize(values: Vector, grid: Grid, rng: np.random.Generator | None = None) -> Ints:
    """Round finite values to levels: (k,) int64 in [-most, most].

    With a generator rounding is stochastic: ``E[dequantize(quantize(v))] = v`` for every v within the grid.

    >>> quantize(np.array([0.9, -0.4, 0.0], np.float32), Uniform(1.0, 1)).tolist()
    [1, 0, 0]
    """
    points = grid.magnitudes()
    wide = values.astype(np.float64)
    magnitudes = np.abs(wide)
    if points[-1] == 0:
        return np.zeros(values.size, np.int64)
    if rng is None:
        levels = np.searchsorted((points[1:] + points[:-1]) / 2, magnitudes, side="left")
    else:
        below = np.minimum(np.searchsorted(points, magnitudes, side="right") - 1, grid.most - 1)
        width = points[below + 1] - points[below]
        above = (magnitudes - points[below]) > rng.random(values.size) * width
        levels = below + above
    return np.where(wide < 0, -levels, levels).astype(np.int64)


def dequantize(levels: Ints, grid: Grid) -> Vector:
    """The values of levels: (k,) float32."""
    points = grid.magnitudes()
    values: Vector = np.concatenate([-points[:0:-1], points]).astype(np.float32)
    return values[levels + grid.most]


def norm(levels: Ints, grid: Grid) -> float:
    """L2 norm of the values of levels; the sum of squares is exact, so every machine gets the same result.

    >>> norm(np.array([1, -1, 0]), Uniform(1.0, 1)) == 2 ** 0.5
    True
    """
    points = np.ldexp(grid.magnitudes().astype(np.float32).astype(np.float64), _FLOAT32_STEPS).tolist()
    counts = np.bincount(np.abs(levels).astype(np.intp), minlength=len(points)).tolist()
    squares = sum(count * int(point) ** 2 for count, point in zip(counts, points, strict=True))
    return math.ldexp(math.sqrt(squares), -_FLOAT32_STEPS)


def _power(steps: int) -> float:
    """2**(steps / 1024)."""
    return math.ldexp(_FINE[steps % OCTAVE], steps // OCTAVE)
