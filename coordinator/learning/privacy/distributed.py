"""The noise of devices in secure sums (:mod:`nightjar.wire.secure_sum.discrete_gaussian`): how much, and its epsilon.

Each round has noise of its own, so what a device spends grows with the number of its reports. A sum of discrete
Gaussians is only nearly one. With n as the devices whose noise is counted on, s^2 as the variance that each adds, d as
the length and D as the sensitivity, both in steps of the grid, the sum is::

    (alpha, alpha D^2 / (2 n s^2) + tau d)-RDP,    tau = 10 sum over k < n of exp(-2 (pi s)^2 k / (k + 1))

The noise multiplier is ``sqrt(n) s / D``. s^2 is at least 16, with which tau d is less than 1e-50
for all that a sum may hold. :mod:`.accounting` composes the rounds.

Source: Kairouz, Liu and Steinke 2021, "The Distributed Discrete Gaussian Mechanism", proposition 14.
"""

from __future__ import annotations

import math

from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.secure_sum.discrete_gaussian import LEAST_VARIANCE, MOST_VARIANCE, rounded_norm
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.terms import MOST_MEMBERS, MOST_VALUES

OFF = 10 * MOST_MEMBERS * math.exp(-(math.pi**2) * LEAST_VARIANCE) * MOST_VALUES
"""Bound of tau d."""
LEVELS = 3.0
"""Steps of the grid in the clip norm, over the root of the length: rounding adds a fiftieth to the sensitivity."""
MOST_MULTIPLIER = 50.0
"""The largest for which the grid of a usual model has room."""


def noised_grid(clip_norm: float, multiplier: float, honest: int, size: int) -> tuple[Grid, int]:
    """The grid of a sum with noise, and the variance that each device adds, in its steps.

    >>> noised_grid(1.0, 2.0, 12, 10_000)
    (Grid(step=0.0033333333333333335, most=300), 30951)

    ``multiplier`` is that of the noise of the ``honest`` devices, which are counted on; ``size`` is the number of
    values.

    Raises:
        LocalProtocolError: no grid holds so much noise.
    """
    levels = math.ceil(LEVELS * math.sqrt(size))
    while (variance := math.ceil((multiplier * rounded_norm(levels, size)) ** 2 / honest)) > MOST_VARIANCE:
        levels //= 2
        if not levels:
            msg = f"expected a noise multiplier for which a grid of {size} values has room, got {multiplier:g}"
            raise LocalProtocolError(msg)
    return Grid(step=clip_norm / levels, most=levels), max(variance, LEAST_VARIANCE)
