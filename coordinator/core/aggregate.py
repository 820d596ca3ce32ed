"""The weighted mean of updates.

Everything is summed in float64 in ascending order of devices, so the same reports give the same mean, bit for bit, on
every machine. One update and one sum are in memory at a time,
however many reports there are. What the mean does to the model is :mod:`coordinator.core.optimizers`' business.

Source: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wire.codec import Sparse
from wire.errors import LocalProtocolError
from wire.identifiers import DeviceId

Wide = npt.NDArray[np.float64]
"""(n,) float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One device's part of the mean.

    Attributes:
        device: whose it is; fixes the order of the sum.
        weight: its weight, positive.
        update: decoded delta.
    """

    device: DeviceId
    weight: float
    update: Sparse


def weight_of(num_examples: int, cap: int) -> float:
    """The weight of a report: its number of examples, capped, because a weight says something about its owner.

    >>> weight_of(30, 100), weight_of(30_000, 100)
    (30.0, 100.0)
    """
    return float(min(num_examples, cap))


def weighted_mean(contributions: Iterable[Contribution], size: int) -> Wide:
    """``sum(w_k delta_k) / sum(w_k)``, one contribution in memory at a time.

    >>> sparse = Sparse(2, np.array([0]), np.array([4.0], np.float32))
    >>> a, b = Contribution(DeviceId("a"), 1.0, sparse), Contribution(DeviceId("b"), 3.0, sparse)
    >>> weighted_mean([a, b], 2).tolist()
    [4.0, 0.0]

    Args:
        contributions: in strictly ascending order of devices.
        size: n.

    Returns:
        (n,) float64.

    Raises:
        LocalProtocolError: none at all, a device twice or out of order, a weight that is not positive, or a wrong size.
    """
    total = np.zeros(size, np.float64)
    weights = 0.0
    last = ""
    for contribution in contributions:
        if contribution.device <= last or contribution.weight <= 0 or contribution.update.size != size:
            msg = (
                f"expected devices in ascending order, positive weights and {size} parameters, got "
                f"{contribution.device} after {last!r} with {contribution.weight} and {contribution.update.size}"
            )
            raise LocalProtocolError(msg)
        update = contribution.update
        # Indices are unique within an update, so this adds each once, ten times as fast as numpy.add.at.
        total[update.indices] += contribution.weight * update.values.astype(np.float64)
        weights += contribution.weight
        last = contribution.device
    if weights == 0:
        msg = "a mean needs at least one contribution"
        raise LocalProtocolError(msg)
    return total / weights
