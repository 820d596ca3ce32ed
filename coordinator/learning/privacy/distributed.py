"""Epsilon of the noise that devices add inside secure sums (:mod:`wire.secure_sum.discrete_gaussian`).

A sum of discrete Gaussians is only nearly one. With n as the honest devices of a sum, s^2 as the variance that each
adds, d as the length and D as the sensitivity, both in steps of the grid::

    tau = 10 sum over k < n of exp(-2 (pi s)^2 k / (k + 1))
    (alpha, min(alpha D^2 / (2 n s^2) + tau d, alpha / 2 (D / (sqrt(n) s) + tau sqrt(d))^2))-RDP

dp-accounting composes the rounds. What counts is the number of devices whose noise is really in the sum: plan with the
minimum of a round, less those that may collude.

Source: Kairouz, Liu and Steinke 2021, "The Distributed Discrete Gaussian Mechanism", proposition 14.
"""

from __future__ import annotations

import math


def epsilon_of_sums(
    variance: int, devices: int, size: int, sensitivity: float, participations: int, delta: float
) -> float:
    """Epsilon of a device after taking part in some secure sums.

    Args:
        variance: s^2, in steps of the grid, at least 1.
        devices: n.
        size: d.
        sensitivity: D, :func:`wire.secure_sum.discrete_gaussian.rounded_norm`.
        participations: number of sums that the device is in.
        delta: delta.
    """
    from dp_accounting import SelfComposedDpEvent, ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    tau = 10 * sum(math.exp(-2 * math.pi**2 * variance * k / (k + 1)) for k in range(1, devices))
    scaled = sensitivity / math.sqrt(devices * variance)
    found = []
    for event in (ZCDpEvent(scaled**2 / 2, tau * size), ZCDpEvent((scaled + tau * math.sqrt(size)) ** 2 / 2)):
        accountant = RdpAccountant()
        accountant.compose(SelfComposedDpEvent(event, participations))
        found.append(float(accountant.get_epsilon(delta)))
    return min(found)
