"""Robust aggregation: combines the updates of a cohort some of whose devices may be malicious. Pure.

Every rule gets updates that :mod:`coordinator.learning.fedavg` has already clipped, with weights that are already
capped. Each page has its paper and its formulas:

- ``coordinate_wise``: median and trimmed mean of each coordinate;
- ``krum``: multi-Krum, which leaves out the devices far from their neighbours;
- ``bulyan``: multi-Krum, then a trimmed mean;
- ``foolsgold``: weighs down devices that send the same;
- ``fed_plus``: Fed+'s robust mean, a smoothed geometric median;
- ``noisy_mean``: the clipped mean with noise;
- ``suitable``: with which codecs and cohorts a rule works.

The mean holds one update at a time; every other rule holds the cohort, ``4 n`` bytes a device. None of them stops a
patient attacker who looks like an honest device (docs/security.md).

To add a rule, add a page, a name in ``strategies/aggregation.py`` and a line in :func:`aggregate_for`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coordinator.learning.fedavg import Aggregate, Combined, Contribution, streamed_mean
from coordinator.learning.robust.bulyan import bulyan
from coordinator.learning.robust.coordinate_wise import median, trimmed_mean
from coordinator.learning.robust.fed_plus import robust_mean
from coordinator.learning.robust.foolsgold import foolsgold_weights
from coordinator.learning.robust.krum import multi_krum
from coordinator.learning.robust.matrices import norms, weighted
from coordinator.learning.robust.noisy_mean import with_noise
from coordinator.learning.robust.suitable import aggregation_faults, expected
from coordinator.learning.strategies import StrategyChoice
from coordinator.learning.strategies.aggregation import Aggregation

__all__ = ["Aggregation", "aggregate_for", "aggregation_faults"]


def aggregate_for(choice: StrategyChoice, generator: np.random.Generator) -> Aggregate:
    """The function that combines the updates of a cohort.

    Args:
        choice: names the rule, and the share of malicious devices that it expects.
        generator: of the noise.
    """
    if choice.aggregation is Aggregation.MEAN:
        return streamed_mean

    def aggregate(contributions: Iterable[Contribution], size: int) -> Combined:
        cohort = list(contributions)
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

    return aggregate
