"""What a round asks of its secure sum, as the signed assignment says it, and what each device gives to the sum.

A contribution is k coordinates of the update and the weight, on the round's grid (:mod:`wire.secure_sum.grid`), and one
more number: whether the update was within the clip norm. From the sum of these the next clip norm follows, as it does
from single reports (:mod:`coordinator.learning.fedavg`), and nobody need know any device's norm.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from wire.errors import RemoteProtocolError
from wire.parameters import Vector
from wire.secure_sum.grid import Grid, mean_of, to_words
from wire.secure_sum.masks import Words
from wire.secure_sum.terms import MOST_MEMBERS, Terms

FURTHER_VALUES = 2
"""Values beside the coordinates: the weight, and whether the update was within the clip norm."""
MOST_COORDINATES = 2**24 - FURTHER_VALUES


class SumOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How the updates of a round are summed.

    Attributes:
        number: with the round's number it tells sessions apart; both never decrease, so that a device knows which it
            has joined.
        threshold: fewer devices than this and the coordinator together learn nothing but the sum.
        cohort: most devices in the sum; the grid has room for it.
        coordinates: k, the size of the round's mask.
        grid: the common scale.
        clip_norm: L2 norm that a device clips its update to.
        most_examples: a device with more examples weighs no more.
    """

    number: Annotated[int, Meta(ge=0, le=2**53)]
    threshold: Annotated[int, Meta(ge=2, le=MOST_MEMBERS)]
    cohort: Annotated[int, Meta(ge=3, le=MOST_MEMBERS)]
    coordinates: Annotated[int, Meta(ge=1, le=MOST_COORDINATES)]
    grid: Grid
    clip_norm: Annotated[float, Meta(gt=0, le=1e9)]
    most_examples: Annotated[int, Meta(ge=1, le=2**31)]


@dataclass(frozen=True, slots=True, eq=False)
class SummedUpdates:
    """What stands in a sum.

    Attributes:
        mean: (k,) float32, weighted mean of the updates.
        within: number of devices whose update was within the clip norm.
    """

    mean: Vector
    within: int


def terms_of(order: SumOrder, minimum: int, population: str, task: str, round_number: int) -> Terms:
    """The terms that follow from an assignment.

    Raises:
        RemoteProtocolError: they contradict each other.
    """
    named = f"nightjar secure sum\n{population}\n{task}\n{round_number}\n{order.number}\n"
    try:
        return Terms(
            session=hashlib.sha256(named.encode()).digest(),
            threshold=order.threshold,
            minimum=minimum,
            values=order.coordinates + FURTHER_VALUES,
            bits=order.grid.bits(order.cohort),
        )
    except ValueError as error:
        raise RemoteProtocolError(str(error), code="secure-sum") from error


def contribution(update: Vector, num_examples: int, order: SumOrder, rng: np.random.Generator) -> Words:
    """What a device gives to the sum.

    Args:
        update: (k,) float32, at the round's coordinates.
        num_examples: examples behind it, at least 1.
        order: of the round.
        rng: random generator for the rounding.

    Returns:
        (k + 2,) uint32.
    """
    norm = float(np.sqrt(np.square(update, dtype=np.float64).sum()))
    within = norm <= order.clip_norm
    clipped = update if within else (update * (order.clip_norm / norm)).astype(np.float32)
    weight = min(num_examples, order.most_examples) / order.most_examples
    return np.append(to_words(clipped, weight, order.grid, order.grid.bits(order.cohort), rng), np.uint32(within))


def read_sum(total: Words, order: SumOrder) -> SummedUpdates:
    """Inverse of the sum of :func:`contribution`.

    >>> order = SumOrder(
    ...     number=0, threshold=2, cohort=3, coordinates=2, grid=Grid(step=0.5, most=8), clip_norm=9.0, most_examples=5
    ... )
    >>> rng = np.random.default_rng(0)
    >>> given = [contribution(np.array(each, np.float32), 5, order, rng) for each in ([1, -1], [2, -1])]
    >>> found = read_sum((given[0] + given[1]) % 64, order)
    >>> found.mean.tolist(), found.within
    ([1.5, -1.0], 2)

    Args:
        total: (k + 2,) uint32, modulo 2**bits.
        order: of the round.
    """
    return SummedUpdates(mean_of(total[:-1], order.grid, order.grid.bits(order.cohort)), int(total[-1]))
