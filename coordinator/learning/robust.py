"""Robust aggregation: combines the updates of a cohort some of whose devices may be malicious. Pure.

Every rule gets updates that :mod:`nightjar.coordinator.learning.fedavg` has already clipped, with weights that are
already capped; median, trimmed mean and Bulyan do not use the weights. With k devices, f of them malicious, u_i is the
update of device i.

The mean holds one update at a time; every other rule holds the cohort, ``4 n`` bytes a device. None of them stops a
patient attacker who looks like an honest device (docs/security.md). The rules of single coordinates lose the updates of
the few: a coordinate that most devices leave at zero stays at zero, whatever the others say.

To add a rule, add a function, a name in :class:`nightjar.coordinator.learning.strategies.Aggregation` and a case in
``_combine``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from nightjar.coordinator.learning.fedavg import Aggregate, Combined, Contribution, WeightedMean
from nightjar.coordinator.learning.strategies import Aggregation, StrategyChoice, Wide

Updates = npt.NDArray[np.float32]
"""(k, n) float32: one clipped update a row, devices in ascending order."""
Weights = npt.NDArray[np.float64]
"""(k,) float64."""
Flags = npt.NDArray[np.bool_]
"""(k,) bool: which devices a rule keeps."""

BLOCK = 1 << 16
"""Columns that a coordinate-wise rule sorts at a time: sorting needs copies of them."""
RADIUS_SHARE = 0.1
"""Radius of Fed+ as a share of the lower median of the norms."""
STEPS = 50
REST = 1e-4
"""A step of Fed+ shorter than this share of the radius ends the search."""
NOISE_SHARE = 0.1
"""Norm of the noise over that of the largest update."""
NEEDS = {Aggregation.TRIMMED_MEAN: (2, 1), Aggregation.MULTI_KRUM: (2, 3), Aggregation.BULYAN: (4, 3)}
"""(a, b) of the smallest cohort ``a f + b`` that a rule is defined for."""
MIDDLE = {Aggregation.MEDIAN, Aggregation.BULYAN}
"""Rules that take the middle of a coordinate's values."""


Rule = Callable[[Sequence[Contribution], int], Combined]
"""(contributions of a cohort, n) -> the combined updates."""


class Collected:
    """Collects the updates of a cohort, and combines them by a rule that needs all of them."""

    def __init__(self, rule: Rule, size: int) -> None:
        self._rule, self._size = rule, size
        self._cohort: list[Contribution] = []

    def add(self, contribution: Contribution) -> None:
        """Add the update of one device; see :meth:`nightjar.coordinator.learning.fedavg.Accumulator.add`."""
        self._cohort.append(contribution)

    def combined(self) -> Combined:
        """What the rule makes of the cohort."""
        return self._rule(self._cohort, self._size)


def aggregate_for(choice: StrategyChoice, generator: np.random.Generator) -> Aggregate:
    """What combines the updates of a cohort."""
    if choice.aggregation is Aggregation.MEAN:
        return WeightedMean
    return partial(Collected, partial(_combine, choice, generator))


def _combine(
    choice: StrategyChoice, generator: np.random.Generator, cohort: Sequence[Contribution], size: int
) -> Combined:
    updates = np.zeros((len(cohort), size), np.float32)  # (k, n)
    for row, each in zip(updates, cohort, strict=True):
        row[each.update.indices] = np.float32(each.scale) * each.update.values
    weights = np.array([each.weight for each in cohort])
    malicious = expected(choice.attackers, len(cohort))
    match choice.aggregation:
        case Aggregation.MEDIAN:
            return Combined(median(updates))
        case Aggregation.TRIMMED_MEAN:
            return Combined(trimmed_mean(updates, malicious))
        case Aggregation.BULYAN:
            mean, kept = bulyan(updates, malicious)
            weights = kept.astype(np.float64)
        case Aggregation.MULTI_KRUM:
            weights = weights * multi_krum(updates, malicious)
            mean = weighted(updates, weights)
        case Aggregation.FOOLSGOLD:
            weights = weights * foolsgold_weights(updates)
            mean = weighted(updates, weights)
        case Aggregation.FED_PLUS:
            mean = robust_mean(updates, weights)
        case _:
            mean = with_noise(weighted(updates, weights), float(norms(updates).max()), generator)
    return Combined(mean, tuple(each.device for each, weight in zip(cohort, weights, strict=True) if not weight))


def expected(attackers: float, cohort: int) -> int:
    """f: how many devices of a cohort are expected to be malicious, rounded up.

    >>> expected(0.1, 10), expected(0.1, 11), expected(0.0, 20)
    (1, 2, 0)
    """
    return math.ceil(round(attackers * cohort, 9))


def aggregation_faults(rule: Aggregation, attackers: float, cohort: int, own_choice: float | None) -> list[str]:
    """Why a rule cannot work with these cohorts and codecs.

    With top-k of its own choice each device sends its largest few coordinates, and most coordinates come from few
    devices or none. A median is then zero, and so is a trimmed mean whose trimming removes more devices than send a
    coordinate.

    >>> aggregation_faults(Aggregation.MULTI_KRUM, 0.1, 10, 0.01)
    []
    >>> len(aggregation_faults(Aggregation.MEDIAN, 0.1, 20, 0.01))
    1

    ``cohort`` is the fewest reports of a round. ``own_choice`` is the share of the coordinates that a device sends, if
    it chooses them; None if all devices send the same.
    """
    faults = []
    a, b = NEEDS.get(rule, (0, 0))
    least = a * expected(attackers, cohort) + b
    if cohort < least:
        faults.append(
            f"strategy.aggregation: {rule.value} needs at least {least} reports to withstand "
            f"{expected(attackers, cohort)} malicious ones, and a round may have {cohort}; raise minimum, or lower "
            "strategy.attackers"
        )
    enough = 0.5 if rule in MIDDLE else attackers if rule is Aggregation.TRIMMED_MEAN else 0.0
    if own_choice is not None and own_choice <= enough:
        faults.append(
            f"strategy.aggregation: {rule.value} of updates whose coordinates each device chooses itself "
            f"({own_choice:.0%} of them) is zero almost everywhere, so the model would not learn; take a dense "
            "codec, or multi-krum, foolsgold, fed-plus or noisy-mean"
        )
    return faults


def median(updates: Updates) -> Wide:
    """The median of each coordinate, (n,) float64; the mean of the two in the middle, if their number is even.

    Fewer than half of the devices cannot move it beyond the honest values.

    >>> median(np.array([[1, 0], [2, 0], [900, 7]], np.float32)).tolist()
    [2.0, 0.0]

    Source: Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", definition 1.
    """
    return np.concatenate([np.median(block, axis=0) for block in blocks(updates)])


def trimmed_mean(updates: Updates, malicious: int) -> Wide:
    """The mean of each coordinate without its f smallest and f largest values, (n,) float64; f is below k / 2.

    f devices cannot move it beyond the honest values.

    >>> trimmed_mean(np.array([[1], [2], [4], [900]], np.float32), 1).tolist()
    [3.0]

    Source: Yin et al. 2018, definition 2.
    """
    kept = slice(malicious, len(updates) - malicious)
    return np.concatenate([np.sort(block, axis=0)[kept].mean(axis=0) for block in blocks(updates)])


def multi_krum(updates: Updates, malicious: int) -> Flags:
    """Multi-Krum: which devices are kept, (k,) bool: the k - f of the lowest scores.

    It needs ``k >= 2 f + 3``. It leaves out f devices in every round, so honest ones when fewer attack, and those first
    who type unlike others. Where each device sends its own few coordinates, all are about equally far apart and the
    score says little more than the size of an update.

    >>> multi_krum(np.array([[0], [1], [2], [3], [50]], np.float32), 1).tolist()
    [True, True, True, True, False]

    Source: Blanchard et al. 2017, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", sections 4
    and 6.
    """
    order = np.argsort(krum_scores(square_distances(updates), malicious), kind="stable")
    kept = np.zeros(len(updates), np.bool_)
    kept[order[: len(updates) - malicious]] = True
    return kept


def krum_scores(distances: Wide, malicious: int) -> Weights:
    """The sum of a device's squared distances to the k - f - 2 updates nearest to it, at least one; (k,) float64.

    >>> apart = square_distances(np.array([[0], [1], [2], [3], [50]], np.float32))
    >>> krum_scores(apart, 1).tolist()
    [5.0, 2.0, 2.0, 5.0, 4513.0]
    """
    nearest = max(1, len(distances) - malicious - 2)
    scores: Weights = np.sort(distances, axis=1)[:, 1 : nearest + 1].sum(axis=1)  # without the update itself
    return scores


def bulyan(updates: Updates, malicious: int) -> tuple[Wide, Flags]:
    """Bulyan: chooses devices by Krum, then trims each coordinate.

    1. k - 2 f times: take the device of the lowest Krum score among those left;
    2. each coordinate: the mean of the k - 4 f values of those taken that are nearest to their median.

    The second step stops what Krum lets through: an update that is near the others but for a few large coordinates. It
    needs ``k >= 4 f + 3``, and common coordinates, as its second step is a trimmed mean.

    >>> mean, taken = bulyan(np.array([[0], [1], [2], [3], [4], [5], [50]], np.float32), 1)
    >>> mean.tolist(), taken.tolist()
    ([2.0], [True, True, True, True, True, False, False])

    Returns:
        The mean, (n,) float64, and the devices that the first step took, (k,) bool.

    Source: El Mhamdi et al. 2018, "The Hidden Vulnerability of Distributed Learning in Byzantium", section 4.
    """
    distances, left = square_distances(updates), list(range(len(updates)))
    taken = np.zeros(len(updates), np.bool_)
    for _ in range(max(1, len(updates) - 2 * malicious)):
        taken[left.pop(int(krum_scores(distances[np.ix_(left, left)], malicious).argmin()))] = True
    count = max(1, int(taken.sum()) - 2 * malicious)
    parts = []
    for block in blocks(updates[taken]):
        order = np.argsort(np.abs(block - np.median(block, axis=0)), axis=0, kind="stable")[:count]
        parts.append(np.take_along_axis(block, order, axis=0).mean(axis=0))
    return np.concatenate(parts), taken


def foolsgold_weights(updates: Updates) -> Weights:
    """FoolsGold: the weight of each device, (k,) float64 in [0, 1]; all 1 if all updates are alike.

    It weighs down devices whose updates point the same way, as those of one attacker with many names do. With c_ij the
    cosine of the updates of i and j, and ``v_i = max_j c_ij``::

        c_ij := c_ij v_i / v_j           if v_j > v_i: pardons the honest neighbour of two attackers
        a_i   = 1 - max_j c_ij           in [0, 1]
        a_i  := a_i / max_j a_j
        a_i  := ln(a_i / (1 - a_i)) + 1/2, in [0, 1]

    The paper compares the sums of all updates that a device ever sent. Reports are deleted after their round here, so
    this compares those of one round. It does nothing against a single attacker, and attackers who train apart, or add
    noise of their own, look different.

    >>> foolsgold_weights(np.array([[1, 0], [0, 1], [0, 1]], np.float32)).tolist()
    [1.0, 0.0, 0.0]

    Source: Fung et al. 2020, "The Limitations of Federated Learning in Sybil Settings", algorithm 1, with kappa = 1.
    """
    if len(updates) < 2:
        return np.ones(len(updates))
    lengths = norms(updates)
    squares = np.square(lengths)
    products = (squares[:, None] + squares[None, :] - square_distances(updates)) / 2
    lengths[lengths == 0] = 1.0
    cosines = products / np.outer(lengths, lengths)
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.max(axis=1)
    pardon = np.ones_like(cosines)
    for i, own in enumerate(nearest.tolist()):
        above = nearest > own
        pardon[i, above] = max(0.0, own) / nearest[above]
    weights = np.clip(1 - (cosines * pardon).max(axis=1), 0.0, 1.0)
    if weights.max() <= 1e-9:
        return np.ones(len(updates))
    share = np.clip(weights / weights.max(), 1e-12, 1 - 1e-12)
    logits: Weights = np.log(share / (1 - share))
    return np.clip(logits + 0.5, 0.0, 1.0)


def robust_mean(updates: Updates, weights: Weights) -> Wide:
    """Fed+'s robust mean, (n,) float64: a geometric median that is smooth near the middle.

    With weights w_i and the radius rho, the centre b at which the residuals, clipped to rho, add up to zero::

        sum over i of w_i min(1, rho / |u_i - b|) (u_i - b) = 0

    For rho towards 0 it is the geometric median, for a large one the mean. The paper's aggregator reaches it by steps
    of at most rho; this takes the same point as a weighted mean with weights ``w_i min(1, rho / |u_i - b|)``, computed
    anew until it rests (Weiszfeld's algorithm), which takes fewer. rho is a tenth of the lower median of the norms.

    Nobody moves the centre by more than a direction of bounded weight; but in many dimensions honest updates are about
    equally far from everything, and it is then close to the mean.

    >>> updates = np.array([[1.0], [1.2], [1.4], [900.0]], np.float32)
    >>> bool(1.0 < robust_mean(updates, np.ones(4))[0] < 1.4)
    True

    Source: Kundu et al. 2022, "Robustness and Personalization in Federated Learning: A Unified Approach via
    Regularization", section 3 (Fed+).
    """
    radius = RADIUS_SHARE * statistics.median_low(norms(updates).tolist())
    centre = weighted(updates, weights)
    for _ in range(STEPS):
        apart = norms(updates, centre)
        share = np.minimum(1.0, radius / np.maximum(apart, 1e-30))
        if not share.any():
            return np.zeros(updates.shape[1])  # more than half of the devices learned nothing
        following = weighted(updates, weights * share)
        moved = float(np.sqrt(np.square(following - centre).sum()))
        centre = following
        if moved <= REST * radius:
            break
    return centre


def with_noise(mean: Wide, clip_norm: float, generator: np.random.Generator) -> Wide:
    """Norm bounding with noise: the clipped mean, and Gaussian noise that drowns a small planted change.

    With C the largest norm after clipping and n parameters::

        mean + N(0, (0.1 C)^2 / n) in each coordinate, so that the noise has about the norm 0.1 C

    This is no differential privacy: the noise is too small for that, and its seed is the coordinator's. Every
    coordinate changes in each round, so the next weights are published whole.

    >>> with_noise(np.zeros(3), 0.0, np.random.default_rng(0)).tolist()
    [0.0, 0.0, 0.0]

    Source: Sun et al. 2019, "Can You Really Backdoor Federated Learning?", section 4.
    """
    deviation = NOISE_SHARE * clip_norm / math.sqrt(mean.size)
    return mean + generator.normal(0.0, deviation, mean.size)


def blocks(updates: Updates) -> Iterator[Wide]:
    """The columns in blocks, (k, b) float64."""
    for start in range(0, updates.shape[1], BLOCK):
        yield updates[:, start : start + BLOCK].astype(np.float64)


def weighted(updates: Updates, weights: Weights) -> Wide:
    """``sum(w_k u_k) / sum(w_k)``, in order of devices; zero if no weight is positive.

    >>> weighted(np.array([[1, 0], [5, 2]], np.float32), np.array([1.0, 3.0])).tolist()
    [4.0, 1.5]
    """
    total = np.zeros(updates.shape[1])
    for update, weight in zip(updates, weights.tolist(), strict=True):
        total += weight * update
    return total / (weights.sum() or 1.0)


def square_distances(updates: Updates) -> Wide:
    """Squared Euclidean distance of each pair of updates, (k, k) float64.

    >>> square_distances(np.array([[0, 0], [3, 4]], np.float32)).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    found = np.zeros((len(updates), len(updates)))
    for row, update in enumerate(updates):
        for other in range(row):
            apart = update.astype(np.float64) - updates[other]
            found[row, other] = found[other, row] = np.square(apart).sum()
    return found


def norms(updates: Updates, centre: Wide | float = 0.0) -> Weights:
    """Distance of each update from a centre, (k,) float64.

    >>> norms(np.array([[3, 4], [0, 1]], np.float32)).tolist()
    [5.0, 1.0]
    """
    return np.array([np.sqrt(np.square(update.astype(np.float64) - centre).sum()) for update in updates])
