"""Federated averaging: from the encoded updates of a cohort to the next weights. Pure.

With weights x, and the update u_k of device k, which reports n_k training examples::

    u_k = decode(payload_k)
    d   = sum(w_k f_k s_k u_k) / sum(w_k)
    w_k = min(n_k, cap)                        weight: its number of examples, capped by default at the cohort's median
    s_k = min(1, C / |u_k|)                    scale: clips the update to the norm C
    f_k = 1, or less for a late update         coordinator.learning.staleness
    x   = server optimizer (x, d)              FedAvg: x + eta d; coordinator.learning.strategies has the others

This is the default way to combine the clipped updates; coordinator.learning.robust has others.

C follows a quantile gamma of the cohorts' norms, by default the median: no setting depends on plan, codec or model.
With b as the share of a cohort's updates within C, the next cohort is clipped to::

    C exp(-eta (b - gamma))                    eta = 0.2: with the median, about a tenth at most per round

The first cohort is clipped to its own median norm. All medians are lower medians, so that one device of two cannot
raise them. Norms are computed from the decoded updates, never taken from the devices.

Sums are computed in float64 in ascending order of devices, so equal reports give bit-identical weights on every
machine. Memory holds one update and one sum at a time, however many reports there are.

Sources: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data", for the mean;
Andrew et al. 2021, "Differentially Private Learning with Adaptive Clipping", section 2.1, for C, without its noise;
Reddi et al. 2021, "Adaptive Federated Optimization", for the server optimizer.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nightjar.coordinator.learning.strategies import MEDIAN, ServerOptimizer, State, Weighting, Wide
from nightjar.wire.codec import Codec, Sparse
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.parameters import ParameterLayout, Vector

ETA = 0.2
"""Learning rate of the clip norm, as in the paper."""


@dataclass(frozen=True, slots=True)
class ClientUpdate:
    """The update that a device reported.

    Attributes:
        num_examples: n_k, positive.
        payload: returns the encoded update; called once, or twice for a task's first cohort.
        factor: f_k, 0 to 1: below 1 if the update is late (:mod:`nightjar.coordinator.learning.staleness`).
    """

    device: DeviceId
    num_examples: int
    payload: Callable[[], bytes]
    factor: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One device's contribution to the mean.

    Attributes:
        weight: w_k, positive.
        update: u_k.
        scale: f_k s_k; below 1 if the update is late or was clipped.
    """

    device: DeviceId
    weight: float
    update: Sparse
    scale: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The combined updates of a cohort.

    Attributes:
        mean: (n,) float64.
        left_out: devices whose updates do not count.
    """

    mean: Wide
    left_out: tuple[DeviceId, ...] = ()


class Accumulator(Protocol):
    """Combines the clipped updates of a cohort, which are added one by one."""

    def add(self, contribution: Contribution) -> None:
        """Add the update of one device; devices come in strictly ascending order.

        Raises:
            LocalProtocolError: a device twice or out of order, a weight not positive, or a wrong size.
        """

    def combined(self) -> Combined:
        """What was added, combined.

        Raises:
            LocalProtocolError: nothing was added.
        """


NextNorm = Callable[[float, int, int], float]
"""(C, number of updates within C, number of updates) -> C of the next cohort."""
Aggregate = Callable[[int], Accumulator]
"""n -> what combines the updates of a cohort."""


@dataclass(frozen=True, slots=True, eq=False)
class Averaged:
    """The result of averaging a cohort's updates.

    Attributes:
        weights: (n,) float32, the next weights.
        state: next state of the server optimizer.
        clip_norm: C of the next cohort; None while every update so far was zero.
        unreadable: devices whose updates could not be decoded; they are not in the mean.
        left_out: devices whose updates the aggregation rejected.
    """

    weights: Vector
    state: State
    clip_norm: float | None
    unreadable: tuple[DeviceId, ...]
    left_out: tuple[DeviceId, ...] = ()


class TooFewReadableError(Exception):
    """The updates of ``devices`` cannot be decoded, and fewer than the minimum remain without them."""

    def __init__(self, devices: tuple[DeviceId, ...]) -> None:
        super().__init__(f"{len(devices)} updates cannot be decoded, and without them there are too few")
        self.devices = devices


def federated_average(
    weights: Vector,
    state: State,
    updates: Iterable[ClientUpdate],
    codec: Codec,
    layout: ParameterLayout,
    optimizer: ServerOptimizer,
    clip_norm: float | None,
    minimum: int = 1,
    aggregate: Aggregate | None = None,
    *,
    weighting: Weighting = Weighting.CAPPED,
    next_norm: NextNorm | None = None,
) -> Averaged:
    """Decode, clip and average the updates, and apply a step of the server optimizer.

    ``weights``, (n,) float32, are those of the base version. ``clip_norm`` is C; None for a task's first cohort.
    ``aggregate`` combines the clipped updates; None takes their weighted mean, with one in memory at a time.
    ``next_norm`` tells how the clip norm changes; None follows the median.

    Raises:
        TooFewReadableError: some updates cannot be decoded, and fewer than ``minimum`` remain.
        LocalProtocolError: there is no update, or a device occurs twice.
    """
    cohort = sorted(updates, key=lambda each: each.device)
    if not cohort:
        msg = "a mean needs at least one update"
        raise LocalProtocolError(msg)
    most = largest_weight((each.num_examples for each in cohort), weighting)
    if clip_norm is None:
        decoded = (update for _, update in _decoded(cohort, codec, layout) if update is not None)
        clip_norm = first_clip_norm(map(norm_of, decoded))
    accumulator = (aggregate or WeightedMean)(layout.size)
    norms: list[float] = []
    unreadable: list[DeviceId] = []
    for each, update in _decoded(cohort, codec, layout):
        if update is None:
            unreadable.append(each.device)
            continue
        norm = norm_of(update)
        norms.append(norm)
        scale = 1.0 if clip_norm is None or norm <= clip_norm else clip_norm / norm
        weight = weight_of(each.num_examples, most)
        accumulator.add(Contribution(each.device, weight, update, each.factor * scale))
    if unreadable and len(norms) < minimum:
        raise TooFewReadableError(tuple(unreadable))
    combined = accumulator.combined()
    following, state = optimizer.apply(weights, combined.mean, state)
    if clip_norm is not None:
        follow = next_norm or following_quantile(MEDIAN)
        clip_norm = follow(clip_norm, sum(norm <= clip_norm for norm in norms), len(norms))
    return Averaged(following, state, clip_norm, tuple(unreadable), combined.left_out)


def _decoded(
    cohort: Iterable[ClientUpdate], codec: Codec, layout: ParameterLayout
) -> Iterator[tuple[ClientUpdate, Sparse | None]]:
    """Each client update with its decoded form; None if it cannot be decoded."""
    for each in cohort:
        payload = each.payload()
        try:
            update = codec.decode(payload, layout)
        except RemoteProtocolError:
            update = None
        yield each, update


class WeightedMean:
    """The default way to combine updates: ``sum(w_k s_k u_k) / sum(w_k)``, with one update in memory at a time.

    Attributes:
        total: ``sum(w_k s_k u_k)`` so far, (n,) float64.
    """

    def __init__(self, size: int) -> None:
        self.total: Wide = np.zeros(size)
        self._scaled: Wide = np.empty(size)
        self._weights = 0.0
        self._last = ""

    def add(self, contribution: Contribution) -> None:
        """Add the update of one device; see :meth:`Accumulator.add`."""
        update, size = contribution.update, self.total.size
        if contribution.device <= self._last or contribution.weight <= 0 or update.size != size:
            msg = (
                f"expected devices in ascending order, positive weights and {size} parameters, got "
                f"{contribution.device} after {self._last!r} with {contribution.weight} and {update.size}"
            )
            raise LocalProtocolError(msg)
        factor = contribution.weight * contribution.scale
        if update.values.size == size:  # a dense update
            self.total += np.multiply(update.values, factor, out=self._scaled, dtype=np.float64)
        else:
            self.total[update.indices] += factor * update.values.astype(np.float64)  # indices are unique in an update
        self._weights += contribution.weight
        self._last = contribution.device

    def combined(self) -> Combined:
        """The weighted mean, which leaves nobody out; see :meth:`Accumulator.combined`."""
        if self._weights == 0:
            msg = "a mean needs at least one contribution"
            raise LocalProtocolError(msg)
        return Combined(self.total / self._weights)


def weighted_mean(contributions: Iterable[Contribution], size: int) -> Wide:
    """``sum(w_k s_k u_k) / sum(w_k)``, (n,) float64, with one contribution in memory at a time.

    >>> sparse = Sparse(2, np.array([0]), np.array([4.0], np.float32))
    >>> a, b = Contribution(DeviceId("a"), 1.0, sparse), Contribution(DeviceId("b"), 3.0, sparse)
    >>> weighted_mean([a, b], 2).tolist()
    [4.0, 0.0]

    Raises:
        LocalProtocolError: as :class:`Accumulator`.
    """
    mean = WeightedMean(size)
    for each in contributions:
        mean.add(each)
    return mean.combined().mean


def largest_weight(num_examples: Iterable[int], weighting: Weighting = Weighting.CAPPED) -> int:
    """The cap on weights: by default the lower median of the cohort's positive example counts.

    >>> largest_weight([30, 30_000]), largest_weight([10, 30, 30_000])
    (30, 30)
    >>> largest_weight([10, 30], Weighting.EXAMPLES), largest_weight([10, 30], Weighting.EQUAL)
    (30, 1)
    """
    match weighting:
        case Weighting.CAPPED:
            return statistics.median_low(num_examples)
        case Weighting.EXAMPLES:
            return max(num_examples)
        case Weighting.EQUAL:
            return 1


def weight_of(num_examples: int, cap: int) -> float:
    """The weight of a report: its number of examples, capped, because a weight reveals something about its owner.

    >>> weight_of(30, 100), weight_of(30_000, 100)
    (30.0, 100.0)
    """
    return float(min(num_examples, cap))


def norm_of(update: Sparse) -> float:
    """L2 norm of a decoded update.

    >>> norm_of(Sparse(5, np.array([0, 3]), np.array([3.0, 4.0], np.float32)))
    5.0
    """
    return math.sqrt(np.square(update.values, dtype=np.float64).sum())


def first_clip_norm(norms: Iterable[float]) -> float | None:
    """Clip norm of the first cohort: the lower median of its nonzero norms; None if all updates are zero.

    >>> first_clip_norm([0.0, 4.0, 100.0])
    4.0
    """
    moving = [norm for norm in norms if norm > 0]
    return statistics.median_low(moving) if moving else None


def next_clip_norm(clip_norm: float, within: float, quantile: float = MEDIAN) -> float:
    """Clip norm of the next cohort, after a cohort with this share of updates within the clip norm.

    >>> round(next_clip_norm(4.0, 1.0), 3), round(next_clip_norm(4.0, 0.0), 3)
    (3.619, 4.421)
    >>> next_clip_norm(4.0, 1.0, quantile=1.0), round(next_clip_norm(4.0, 0.0, quantile=1.0), 3)
    (4.0, 4.886)
    """
    return clip_norm * math.exp(-ETA * (within - quantile))


def following_quantile(quantile: float) -> NextNorm:
    """A clip norm that follows a quantile of the norms; 1 ends in clipping no update."""
    return lambda clip_norm, within, updates: next_clip_norm(clip_norm, within / updates, quantile)
