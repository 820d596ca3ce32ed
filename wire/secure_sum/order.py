"""What a round asks of its secure sum, as the signed assignment says it, and what each device gives to the sum.

A contribution is the update as :mod:`nightjar.wire.secure_sum.low_rank` encodes it, with the root mean square of each
group of its values, and the weight, on the round's grid (:mod:`nightjar.wire.secure_sum.grid`); and one more number:
whether the update was within the clip norm. From the sum of these the next clip norm follows, as it does from single
reports (:mod:`nightjar.coordinator.learning.fedavg`), and nobody need know any device's norm.

With differential privacy all that a device gives has to be noised, so it gives less: the encoded update, clipped to a
norm that stays, with noise (:mod:`nightjar.wire.secure_sum.discrete_gaussian`). Weight and bit are the same for all
devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, Vector
from nightjar.wire.secure_sum.discrete_gaussian import MOST_VARIANCE, UniformIntegers, noised_bits, private_words
from nightjar.wire.secure_sum.grid import Grid, mean_of, spread_in, spread_out, to_words
from nightjar.wire.secure_sum.low_rank import Bases, Rank, decode, encode, group_sizes
from nightjar.wire.secure_sum.masks import Words
from nightjar.wire.secure_sum.terms import MOST_MEMBERS, Terms

BINDING = 1
"""How a session's name follows from the orders of its devices (:mod:`nightjar.wire.secure_sum.session`)."""
FURTHER_VALUES = 2
"""Values beside the update's: the weight, and whether the update was within the clip norm."""


class SumOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How the updates of a round are summed.

    Attributes:
        number: with the round's number it tells sessions apart; both never decrease, so that a device knows which it
            has joined.
        threshold: fewer devices than this and the coordinator together learn nothing but the sum.
        cohort: most devices in the sum; the grid has room for it.
        rank: how much of each matrix is summed; the bases are an artifact of the version.
        grid: the common scale, in units of the spread of a value's group; with noise, in those of the update.
        clip_norm: L2 norm that a device clips its update to; with noise, what it encodes.
        most_examples: a device with more examples weighs no more.
        noise_variance: of the noise that a device adds to each value, in steps of the grid; 0 adds none.
        binding: :data:`BINDING`, or 0 from a coordinator whose sessions bind less; devices refuse what they do not
            know.
    """

    number: Annotated[int, Meta(ge=0, le=2**53)]
    threshold: Annotated[int, Meta(ge=2, le=MOST_MEMBERS)]
    cohort: Annotated[int, Meta(ge=3, le=MOST_MEMBERS)]
    rank: Rank
    grid: Grid
    clip_norm: Annotated[float, Meta(gt=0, le=1e9)]
    most_examples: Annotated[int, Meta(ge=1, le=2**31)]
    noise_variance: Annotated[int, Meta(ge=0, le=MOST_VARIANCE)] = 0
    binding: Annotated[int, Meta(ge=0, le=2**31)] = 0

    @property
    def bits(self) -> int:
        """Bits of a number, which holds the sum of all devices."""
        if self.noise_variance:
            return noised_bits(self.grid, self.cohort, self.noise_variance)
        return self.grid.bits(self.cohort)


@dataclass(frozen=True, slots=True, eq=False)
class SummedUpdates:
    """What stands in a sum."""

    mean: Vector  # (n,) float32, weighted mean of the updates, as far as the rank goes
    within: int  # number of devices whose update was within the clip norm
    spread: Vector  # (g,) float32, of the next round


def values_of(order: SumOrder, layout: ParameterLayout) -> int:
    """How many values a device gives, but for the two that are no part of its update."""
    sizes = group_sizes(layout, order.rank)
    return sum(sizes) + (0 if order.noise_variance else len(sizes))


def terms_of(order: SumOrder, layout: ParameterLayout, minimum: int, session: bytes) -> Terms:
    """The terms that follow from an order and the layout of its model; ``session`` is the session's name, 32 bytes.

    Raises:
        RemoteProtocolError: they contradict each other.
    """
    try:
        return Terms(
            session=session,
            threshold=order.threshold,
            minimum=minimum,
            values=values_of(order, layout) + FURTHER_VALUES,
            bits=order.bits,
        )
    except ValueError as error:
        raise RemoteProtocolError(str(error), code="secure-sum") from error


def binding_faults(order: SumOrder | None) -> list[str]:
    """Why a device does not join a sum whose name does not bind the orders of its devices.

    >>> binding_faults(None)
    []
    """
    if order is None or order.binding == BINDING:
        return []
    older = "coordinator" if order.binding < BINDING else "agent"
    return [
        f"secure_sum.binding: expected {BINDING}, so that all devices of a sum must have the same orders, got "
        f"{order.binding}; update the {older}"
    ]


def contribution(
    update: Vector,
    num_examples: int,
    order: SumOrder,
    layout: ParameterLayout,
    bases: tuple[Bases, ...],
    spread: Vector,
    rng: np.random.Generator,
    noise: UniformIntegers,
) -> Words:
    """What a device gives to the sum: (values,) uint32; see :func:`values_of`.

    The update is (n,) float32, the whole one, with at least one example; the spread is (g,) float32. ``rng`` rounds;
    ``noise``, if the round has any, is secret.
    """
    if order.noise_variance:
        encoded, grid = encode(update, layout, bases), order.grid
        words = private_words(encoded, order.clip_norm, grid, order.noise_variance, order.bits, rng, noise)
        return np.append(words, np.array([grid.most, 0], np.uint32))
    norm = float(np.sqrt(np.square(update, dtype=np.float64).sum()))
    within = norm <= order.clip_norm
    clipped = update if within else (update * (order.clip_norm / norm)).astype(np.float32)
    weight = min(num_examples, order.most_examples) / order.most_examples
    values = spread_out(encode(clipped, layout, bases), group_sizes(layout, order.rank), spread)
    return np.append(to_words(values, weight, order.grid, order.bits, rng), np.uint32(within))


def read_sum(
    total: Words, order: SumOrder, layout: ParameterLayout, bases: tuple[Bases, ...], spread: Vector
) -> SummedUpdates:
    """Inverse of the sum of :func:`contribution`, (values,) uint32 modulo 2**bits.

    >>> from nightjar.wire.parameters import ParameterSpec
    >>> layout, spread = ParameterLayout((ParameterSpec("bias", (2,)),)), np.ones(1, np.float32)
    >>> rank, grid = Rank(rows=1, right=1, left=1), Grid(step=0.5, most=8)
    >>> order = SumOrder(number=0, threshold=2, cohort=3, rank=rank, grid=grid, clip_norm=9.0, most_examples=5)
    >>> rng = np.random.default_rng(0)
    >>> updates = [np.array(each, np.float32) for each in ([1, -1], [2, -1])]
    >>> given = [contribution(update, 5, order, layout, (), spread, rng, rng) for update in updates]
    >>> found = read_sum((given[0] + given[1]) % 64, order, layout, (), spread)
    >>> found.mean.tolist(), found.within
    ([1.5, -1.0], 2)
    """
    mean = mean_of(total[:-1], order.grid, order.bits)
    if order.noise_variance:
        return SummedUpdates(decode(mean, layout, bases), 0, spread)
    values, following = spread_in(mean, group_sizes(layout, order.rank), spread)
    return SummedUpdates(decode(values, layout, bases), int(total[-1]), following)
