"""The mean of a cohort's updates, in which no device counts for more than half of the others.

With the update u_k of device k, trained on n_k examples as the device says::

    d   = sum(w_k s_k u_k) / sum(w_k)
    w_k = min(n_k, median of all n)            how much it wrote
    s_k = min(1, C / |u_k|)                    how far it pulls, clipped to the norm C

C follows the median norm of the cohorts by itself, and no honest plan, codec or model needs a number of its own. With b
as the share of a cohort's updates within C, the next cohort is clipped to::

    C exp(-eta (b - gamma))                    gamma = 1/2, eta = 0.2: by a tenth at most from round to round

The first cohort is clipped to its own median. Every median is the lower one, so that one device of two does not move it
up. A norm is that of the decoded update, whatever a device says of it.

Everything is summed in float64 in ascending order of devices, so the same reports give the same mean, bit for bit, on
every machine. One update and one sum are in memory at a time, however many reports there are. What the mean does to the
model is :mod:`coordinator.learning.optimizers`' business; another aggregation rule would take the same contributions.

Source: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data", for the mean;
Andrew et al. 2021, "Differentially Private Learning with Adaptive Clipping", section 2.1, for C, without its noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from wire.codec import Sparse
from wire.errors import LocalProtocolError
from wire.identifiers import DeviceId

GAMMA = 0.5
"""Share of a cohort's updates that are to be within the clip norm: attackers are fewer than half."""
ETA = 0.2
"""How fast the clip norm moves, as in the paper."""

Wide = npt.NDArray[np.float64]
"""(n,) float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One device's part of the mean.

    Attributes:
        device: whose it is; fixes the order of the sum.
        weight: its weight, positive.
        update: decoded delta.
        scale: factor of the update; below 1 if it was clipped.
    """

    device: DeviceId
    weight: float
    update: Sparse
    scale: float = 1.0


def largest_weight(num_examples: Iterable[int]) -> int:
    """The most that one device of a cohort weighs: the lower median of what all say.

    >>> largest_weight([30, 30_000]), largest_weight([10, 30, 30_000])
    (30, 30)
    """
    return statistics.median_low(num_examples)


def weight_of(num_examples: int, cap: int) -> float:
    """The weight of a report: its number of examples, capped, because a weight says something about its owner.

    >>> weight_of(30, 100), weight_of(30_000, 100)
    (30.0, 100.0)
    """
    return float(min(num_examples, cap))


def norm_of(update: Sparse) -> float:
    """L2 norm of a decoded update.

    >>> norm_of(Sparse(5, np.array([0, 3]), np.array([3.0, 4.0], np.float32)))
    5.0
    """
    return math.sqrt(np.square(update.values.astype(np.float64)).sum())


def first_clip_norm(norms: Iterable[float]) -> float | None:
    """What the first cohort is clipped to: the lower median of its norms; None if no update changes anything.

    >>> first_clip_norm([0.0, 4.0, 100.0])
    4.0
    """
    moving = [norm for norm in norms if norm > 0]
    return statistics.median_low(moving) if moving else None


def next_clip_norm(clip_norm: float, norms: Sequence[float]) -> float:
    """What the next cohort is clipped to, after one of these norms.

    >>> round(next_clip_norm(4.0, [1.0, 2.0]), 3), round(next_clip_norm(4.0, [5.0, 6.0]), 3)
    (3.619, 4.421)
    """
    within = sum(norm <= clip_norm for norm in norms) / len(norms)
    return clip_norm * math.exp(-ETA * (within - GAMMA))


def clipped(contributions: Iterable[Contribution], clip_norm: float, norms: list[float]) -> Iterator[Contribution]:
    """The same contributions, none with a larger norm.

    Args:
        contributions: one after the other.
        clip_norm: C, positive.
        norms: gets the norm of each, as it was.
    """
    for contribution in contributions:
        norm = norm_of(contribution.update)
        norms.append(norm)
        yield contribution if norm <= clip_norm else replace(contribution, scale=clip_norm / norm)


def weighted_mean(contributions: Iterable[Contribution], size: int) -> Wide:
    """``sum(w_k s_k u_k) / sum(w_k)``, one contribution in memory at a time.

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
        total[update.indices] += contribution.weight * contribution.scale * update.values.astype(np.float64)
        weights += contribution.weight
        last = contribution.device
    if weights == 0:
        msg = "a mean needs at least one contribution"
        raise LocalProtocolError(msg)
    return total / weights
