"""A common linear grid: updates of all devices as whole numbers that may be added, with their weights.

The codecs of :mod:`wire.codec` scale by each device's own largest value, so their levels cannot be added. Here the
coordinator chooses one step for all devices, along with the coordinates. Values beyond ``most`` steps are clipped, and
the others are rounded at random to one of their two neighbours, so that they are right on average. A device multiplies
its update by its weight and adds the weight as one more number, so the sum of both gives the weighted mean.

Negative numbers are taken modulo 2**bits. The sum of a cohort cannot wrap around: :meth:`Grid.bits` has room for it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from wire.errors import LocalProtocolError
from wire.parameters import Vector
from wire.secure_sum.masks import Words


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The grid of a round.

    Attributes:
        step: distance of two levels.
        most: largest magnitude of a device's level.
    """

    step: Annotated[float, Meta(gt=0, le=1e9)]
    most: Annotated[int, Meta(ge=1, le=2**15)]

    def bits(self, cohort: int) -> int:
        """Bits of a number that holds the sum of a cohort, with its sign.

        >>> Grid(step=0.1, most=127).bits(100)
        15
        """
        return (2 * self.most * cohort).bit_length()


def to_words(update: Vector, weight: float, grid: Grid, bits: int, rng: np.random.Generator) -> Words:
    """What a device gives to the sum.

    Args:
        update: (k,) float32, at the round's coordinates.
        weight: in (0, 1], as a share of the largest weight that counts.
        grid: grid of the round.
        bits: b, of the round.
        rng: random generator for the rounding.

    Returns:
        (k + 1,) uint32 below 2**bits; the last is the weight.

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
    """The weighted mean of the updates in a sum.

    >>> grid, rng = Grid(step=0.5, most=8), np.random.default_rng(0)
    >>> words = [to_words(np.array(each, np.float32), 1.0, grid, 6, rng) for each in ([1, -1], [2, -1])]
    >>> mean_of((words[0] + words[1]) % 64, grid, 6).tolist()
    [1.5, -1.0]

    Args:
        total: (k + 1,) uint32, the sum modulo 2**bits.
        grid: grid of the round.
        bits: b, of the round.

    Returns:
        (k,) float32; zeros if all weights were rounded to 0.
    """
    signed = total.astype(np.int64)
    signed[signed >> bits - 1 == 1] -= 1 << bits
    weight = max(int(total[-1]), 1)
    return (signed[:-1] * (grid.step * grid.most / weight)).astype(np.float32)
