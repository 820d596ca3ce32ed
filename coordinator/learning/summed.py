"""Federated averaging from a secure sum: what devices are asked to give, and the next weights from their sum. Pure.

The sum gives the weighted mean, and the share of the devices whose update was within the clip norm C, from which C
adapts as in :mod:`coordinator.learning.fedavg`. The devices clip; nobody can check it, so that one device can add
to the sum whatever the grid holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from coordinator.learning.fedavg import Averaged, next_clip_norm
from coordinator.learning.strategies import ServerOptimizer, State
from coordinator.learning.unmasking import unmasked_sum
from coordinator.rounds.secure_sum import Unmask
from wire.codec.quantize import Ints
from wire.parameters import Vector
from wire.secure_sum.grid import Grid
from wire.secure_sum.order import SumOrder, read_sum
from wire.secure_sum.primitives import Primitives
from wire.secure_sum.terms import threshold_for

LEVELS = 127
"""Magnitude of the largest level: 8 bits, and a few more so that the sum does not wrap."""
REACH = 8.0
"""Largest value on the grid, in root mean squares of an update with the clip norm; values beyond it are clipped."""
MOST_EXAMPLES = 100
"""Examples (words) beyond which a device weighs no more. A cohort's median cannot be known, and what weighs little is
lost in the rounding; with this, nearly all devices count alike."""


def grid_for(clip_norm: float, coordinates: int) -> Grid:
    """The common grid of a round: the only place that chooses its step.

    >>> grid_for(clip_norm=127.0, coordinates=64)
    Grid(step=1.0, most=127)
    """
    return Grid(step=REACH * clip_norm / math.sqrt(coordinates) / LEVELS, most=LEVELS)


def sum_order(number: int, minimum: int, cohort: int, coordinates: int, clip_norm: float) -> SumOrder:
    """What the devices of a round are asked to give.

    Args:
        number: tells sessions apart, with the round's number.
        minimum: fewest reports in the sum.
        cohort: most devices.
        coordinates: size of the mask.
        clip_norm: C.
    """
    return SumOrder(
        number=number,
        threshold=threshold_for(minimum),
        cohort=cohort,
        coordinates=coordinates,
        grid=grid_for(clip_norm, coordinates),
        clip_norm=clip_norm,
        most_examples=MOST_EXAMPLES,
    )


def average_of_sum(
    weights: Vector,
    state: State,
    plan: Unmask,
    updates: Iterable[bytes],
    order: SumOrder,
    mask: Ints,
    optimizer: ServerOptimizer,
    primitives: Primitives,
) -> Averaged:
    """Unmask the sum, and apply a step of the server optimizer to its mean.

    Args:
        weights: (n,) float32, weights of the base version.
        state: state of the server optimizer.
        plan: which masks to remove.
        updates: the masked updates of the plan's members, in any order; one is held at a time.
        order: what the devices were asked to give.
        mask: (k,) int64, the round's coordinates.
        optimizer: the server optimizer.
        primitives: the cryptography.

    Raises:
        RemoteProtocolError: an update does not have the right length.
    """
    found = read_sum(unmasked_sum(plan, updates, primitives), order)
    mean = np.zeros(weights.size, np.float64)
    mean[mask] = found.mean
    following, state = optimizer.apply(weights, mean, state)
    within = min(found.within / len(plan.members), 1.0)
    return Averaged(following, state, next_clip_norm(order.clip_norm, within), unreadable=())
