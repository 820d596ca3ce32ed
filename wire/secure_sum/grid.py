"""A common linear grid: updates of all devices as whole numbers that may be added, with their weights.

The codecs of :mod:`nightjar.wire.codec` scale by each device's own largest value, so their levels cannot be added. Here
the coordinator chooses one step for all devices, along with the coordinates. Values beyond ``most`` steps are clipped,
and the others are rounded at random to one of their two neighbours, so that they are right on average. A device
multiplies its update by its weight and adds the weight as one more number, so the sum of both gives the weighted mean.

Negative numbers are taken modulo 2**bits. The sum of a cohort cannot wrap around: :meth:`Grid.bits` has room for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.parameters import Vector
from nightjar.wire.secure_sum.masks import Words


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The grid of a round."""

    step: Annotated[float, Meta(gt=0, le=1e9)]  # distance of two levels
    most: Annotated[int, Meta(ge=1, le=2**15)]  # largest magnitude of a device's level

    def bits(self, cohort: int) -> int:
        """Bits of a number that holds the sum of a cohort, with its sign.

        >>> Grid(step=0.1, most=127).bits(100)
        15
        """
        return (2 * self.most * cohort).bit_length()

    @classmethod
    def of(cls, bits: int, cohort: int) -> Grid:
        """The finest grid, in units of a group's spread, whose sum over a cohort fits so many bits.

        >>> Grid.of(11, 100)
        Grid(step=0.5, most=10)

        Raises:
            LocalProtocolError: the cohort is too large for these bits.
        """
        most = min(((1 << bits) - 1) // (2 * cohort), 1 << 15)
        if most < 1:
            msg = f"a sum of {cohort} devices does not fit {bits} bits"
            raise LocalProtocolError(msg)
        return cls(step=REACH / most, most=most)


REACH = 5.0
"""Largest magnitude of a value, in units of its group's spread: values have long tails, and few may be clipped."""
FIRST_SPREAD = 0.01
"""Spread of a group before the first round. It grows to at most ``REACH`` times itself in a round."""
_FALL, _LEAST_SPREAD = np.float32(0.1), np.float32(1e-9)
"""It falls to no less than this share of itself in a round, and to no less than this: a silent group has none."""


def spread_out(values: Vector, sizes: Sequence[int], spread: Vector) -> Vector:
    """Values in units of their group's spread, and then the group's own root mean square in the same unit.

    Values (k,) float32 are in g groups of these sizes, each with its spread of the round. Returns (k + g,) float32.

    The sum of the latter tells the next round's spread, and no device's. One step for all groups would clip the large
    ones or round the small ones to nothing.
    """
    scaled = values / np.repeat(spread, np.asarray(sizes, np.intp))
    means = np.add.reduceat(np.square(scaled), np.cumsum([0, *sizes[:-1]])) / sizes
    return np.append(scaled, np.sqrt(means)).astype(np.float32)


def spread_in(mean: Vector, sizes: Sequence[int], spread: Vector) -> tuple[Vector, Vector]:
    """Inverse of :func:`spread_out` for a mean over devices: the values, and the spread (g,) of the next round.

    >>> spread = np.array([2, 1], np.float32)
    >>> values, following = spread_in(np.array([1, -1, 1, 1, 0], np.float32), [2, 1], spread)
    >>> values.tolist(), [round(each, 3) for each in following.tolist()]
    ([2.0, -2.0, 1.0], [2.0, 0.1])
    """
    values = mean[: -len(sizes)] * np.repeat(spread, np.asarray(sizes, np.intp))
    return values, np.maximum(spread * np.maximum(mean[-len(sizes) :], _FALL), _LEAST_SPREAD)


def to_words(update: Vector, weight: float, grid: Grid, bits: int, rng: np.random.Generator) -> Words:
    """What a device gives to the sum: (k + 1,) uint32 below 2**bits; the last is the weight.

    The update is (k,) float32, at the round's coordinates; the weight is in (0, 1], a share of the largest that counts.

    Raises:
        LocalProtocolError: a value is not finite, or the weight is out of range.
    """
    if not (np.isfinite(update).all() and 0 < weight <= 1):
        msg = f"expected finite values and a weight in (0, 1], got {weight}"
        raise LocalProtocolError(msg)
    steps = np.append(np.clip(update.astype(np.float64) / grid.step, -grid.most, grid.most), grid.most) * weight
    low = np.floor(steps)
    levels = (low + (rng.random(steps.size) < steps - low)).astype(np.int64)
    return (levels & (1 << bits) - 1).astype(np.uint32)


def mean_of(total: Words, grid: Grid, bits: int) -> Vector:
    """The weighted mean (k,) float32 of the updates in a sum (k + 1,) uint32 modulo 2**bits; zeros without any weight.

    >>> grid, rng = Grid(step=0.5, most=8), np.random.default_rng(0)
    >>> words = [to_words(np.array(each, np.float32), 1.0, grid, 6, rng) for each in ([1, -1], [2, -1])]
    >>> mean_of((words[0] + words[1]) % 64, grid, 6).tolist()
    [1.5, -1.0]
    """
    signed = total.astype(np.int64)
    signed[signed >> bits - 1 == 1] -= 1 << bits
    weight = max(int(total[-1]), 1)
    return (signed[:-1] * (grid.step * grid.most / weight)).astype(np.float32)
