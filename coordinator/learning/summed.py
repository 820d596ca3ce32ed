"""Federated averaging from a secure sum: what devices are asked to give, the sum, and the next weights from it. Pure.

The sum gives the weighted mean at low rank (:mod:`nightjar.wire.secure_sum.low_rank`), from which the bases of the next
round follow; and the share of the devices whose update was within the clip norm C, from which C adapts as in
:mod:`nightjar.coordinator.learning.fedavg`. The devices clip; nobody can check it, so that one device can add to the
sum whatever the grid holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nightjar.coordinator.learning.fedavg import Averaged, next_clip_norm
from nightjar.coordinator.learning.privacy.distributed import noised_grid
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.coordinator.learning.strategies import ServerOptimizer, State
from nightjar.coordinator.rounds.secure_sum import Unmask
from nightjar.wire.parameters import ParameterLayout, Vector
from nightjar.wire.secure_sum import masks
from nightjar.wire.secure_sum.grid import FIRST_SPREAD, Grid
from nightjar.wire.secure_sum.low_rank import Rank, bases_of, from_bytes, group_sizes, next_average, to_bytes
from nightjar.wire.secure_sum.order import BINDING, SumOrder, read_sum
from nightjar.wire.secure_sum.primitives import Primitives
from nightjar.wire.secure_sum.terms import threshold_for

RANKS = (Rank(rows=10_000, right=8, left=16), Rank(rows=10_000, right=2, left=8))
MOST_BYTES = 60_000
"""Devices give values of the first rank that fits this; the small model takes the first (docs/experiments.md)."""
BITS, LEAST_LEVELS = 11, 10
"""Bits of a number, and its levels on either side, which cohorts of more than a hundred need more bits for."""
MOST_EXAMPLES = 100
"""Examples (words) beyond which a device weighs no more. A cohort's median cannot be known, and what weighs little is
lost in the rounding; with this, nearly all devices count alike."""


@dataclass(frozen=True, slots=True, eq=False)
class SumAveraged:
    """The result of averaging a sum.

    Attributes:
        averaged: as from single reports.
        average: (n,) float32, average of the mean updates so far.
        bases: what the devices of the next round are sent.
    """

    averaged: Averaged
    average: Vector
    bases: bytes


def rank_for(layout: ParameterLayout) -> Rank:
    """The rank at which updates to a model are summed.

    >>> from nightjar.models.configurations import configuration
    >>> [rank_for(configuration(name).layout(size)).right for name, size in (("tiny", 2000), ("gboard", 10_000))]
    [8, 2]
    """
    return next((rank for rank in RANKS if BITS * sum(group_sizes(layout, rank)) <= 8 * MOST_BYTES), RANKS[-1])


def sum_order(
    number: int, minimum: int, cohort: int, layout: ParameterLayout, clip_norm: float, noise: NoiseTerms | None = None
) -> SumOrder:
    """What the devices of a round are asked to give.

    ``number`` tells sessions apart, with the round's number. ``minimum`` is the fewest reports in the sum, and
    ``cohort`` the most devices. With noise, its C counts instead of ``clip_norm``.
    """
    rank, variance = rank_for(layout), 0
    if noise is None:
        grid = Grid.of(max(BITS, (2 * LEAST_LEVELS * cohort).bit_length()), cohort)
    else:
        clip_norm, size = noise.clip_norm, sum(group_sizes(layout, rank))
        grid, variance = noised_grid(clip_norm, noise.multiplier, noise.honest, size)
    return SumOrder(
        number=number,
        threshold=threshold_for(minimum),
        cohort=cohort,
        rank=rank,
        grid=grid,
        clip_norm=clip_norm,
        most_examples=MOST_EXAMPLES,
        noise_variance=variance,
        binding=BINDING,
    )


def first_bases(layout: ParameterLayout, rng: np.random.Generator) -> bytes:
    """What the devices of a first round are sent: random bases."""
    rank = rank_for(layout)
    spread = np.full(len(group_sizes(layout, rank)), FIRST_SPREAD, np.float32)
    return to_bytes(bases_of(np.zeros(layout.size, np.float32), layout, rank, rng), spread)


def unmasked_sum(plan: Unmask, updates: Iterable[bytes], primitives: Primitives) -> masks.Words:
    """The sum of updates without the masks that do not cancel, (values,) uint32, modulo 2**bits.

    Args:
        plan: which masks to remove.
        updates: the masked updates of ``plan.members``, in any order; one is held at a time.
        primitives: the cryptography.

    Raises:
        RemoteProtocolError: an update does not have the right length.
    """
    terms = plan.terms
    total = np.zeros(terms.values, np.uint32)
    for data in updates:
        total += masks.unpack(data, terms)
    total -= masks.total_mask(_uncancelled(plan, primitives), terms, primitives)
    return total & np.uint32(2**terms.bits - 1)


def _uncancelled(plan: Unmask, primitives: Primitives) -> Iterable[tuple[int, bytes]]:
    for seed in plan.self_seeds:
        yield 1, masks.self_mask_seed(seed, primitives)
    for member, (seed, neighbours) in plan.dropped.items():
        private = masks.mask_key(seed, primitives)
        for other, public in neighbours.items():
            yield masks.sign_of(other, member), masks.pair_mask_seed(private, public, plan.terms, primitives)


def average_of_sum(
    weights: Vector,
    state: State,
    average: Vector,
    total: masks.Words,
    devices: int,
    order: SumOrder,
    layout: ParameterLayout,
    bases: bytes,
    optimizer: ServerOptimizer,
    rng: np.random.Generator,
) -> SumAveraged:
    """Apply a step of the server optimizer to the mean in a sum, and choose the next bases.

    ``weights``, (n,) float32, are those of the base version, and ``average``, (n,) float32, is that of the mean updates
    before. ``total``, (values,) uint32, is the sum of the ``devices`` without masks, modulo 2**bits, and ``bases`` is
    what they were sent. ``rng`` makes bases of matrices without an update so far.

    Raises:
        RemoteProtocolError: the bases do not fit the layout.
    """
    found = read_sum(total, order, layout, *from_bytes(bases, layout, order.rank))
    following, state = optimizer.apply(weights, found.mean.astype(np.float64), state)
    clip_norm = order.clip_norm
    if not order.noise_variance:  # with noise, it stays
        clip_norm = next_clip_norm(clip_norm, min(found.within / devices, 1.0))
    average = next_average(average, found.mean)
    return SumAveraged(
        Averaged(following, state, clip_norm, unreadable=()),
        average,
        to_bytes(bases_of(average, layout, order.rank, rng), found.spread),
    )
