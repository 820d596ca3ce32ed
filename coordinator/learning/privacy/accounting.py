"""Epsilon of a noise, and the noise of an epsilon, by the accountant of dp-accounting.

The unit is a device: two populations are neighbours if they differ in that one device's updates are all zero
(``REPLACE_SPECIAL``). The library is imported only when a task has differential privacy: it takes a second and 60 MB.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from nightjar.coordinator.learning.privacy.adaptive_clipping import COUNT_NOISE, count_deviation
from nightjar.coordinator.learning.privacy.distributed import OFF
from nightjar.coordinator.learning.privacy.ledger import ASSUMPTIONS, IN_SUMS, Clipping, Ledger
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms

if TYPE_CHECKING:
    from dp_accounting import DpEvent, PrivacyAccountant


def participations(rounds: int, separation: int) -> int:
    """How often a device can take part, which is also the number of trees.

    >>> participations(500, 100), participations(501, 100), participations(5, 100)
    (5, 6, 1)
    """
    return -(-rounds // separation)


@lru_cache(256)
def epsilon_after(
    multiplier: float, rounds: int, separation: int, delta: float, *, counted: bool = False, summed: bool = False
) -> float:
    """Epsilon after a number of committed rounds.

    Args:
        multiplier: deviation of the noise of a node, or of the noise in a sum that is counted on, over the sensitivity.
        rounds: committed rounds.
        separation: a device is at most once in so many rounds in a row.
        delta: delta.
        counted: whether the updates within the clip norm are counted (:mod:`.adaptive_clipping`).
        summed: whether devices add the noise inside secure sums (:mod:`.distributed`).
    """
    if not rounds:
        return 0.0
    accountant = _accountant()
    accountant.compose(_event(multiplier, rounds, separation, counted=counted, summed=summed))
    return float(accountant.get_epsilon(delta))


@lru_cache(256)
def calibrated(
    epsilon: float, delta: float, rounds: int, separation: int, *, counted: bool = False, summed: bool = False
) -> float:
    """The smallest noise multiplier with which all the rounds together stay within epsilon."""
    from dp_accounting import calibrate_dp_mechanism

    def event(multiplier: float) -> DpEvent:
        return _event(multiplier, rounds, separation, counted=counted, summed=summed)

    return float(calibrate_dp_mechanism(_accountant, event, epsilon, delta))


def ledger_of(terms: NoiseTerms, delta: float, rounds: int, noised: int) -> Ledger:
    """The ledger of a task."""
    influence, quantile, clipping = terms.clip_norm / terms.devices, terms.quantile, None
    epsilon = partial(epsilon_after, counted=quantile is not None, summed=terms.honest > 0)
    if quantile is not None:
        clipping = Clipping(
            quantile=quantile,
            noise=count_deviation(terms.multiplier, quantile),
            epsilon=epsilon_after(COUNT_NOISE * terms.multiplier, rounds, terms.separation, delta),
        )
    return Ledger(
        epsilon=epsilon(terms.multiplier, rounds, terms.separation, delta),
        delta=delta,
        rounds=rounds,
        spent=epsilon(terms.multiplier, noised, terms.separation, delta),
        noised=noised,
        participations=participations(rounds, terms.separation),
        separation=terms.separation,
        multiplier=terms.multiplier,
        noise=terms.multiplier * influence * (math.sqrt(terms.devices / terms.honest) if terms.honest else 1.0),
        influence=influence,
        clipping=clipping,
        assumptions=IN_SUMS if terms.honest else ASSUMPTIONS,
    )


def _accountant() -> PrivacyAccountant:
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    return RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)


def _event(multiplier: float, rounds: int, separation: int, *, counted: bool, summed: bool) -> DpEvent:
    from dp_accounting import ComposedDpEvent

    if summed:
        return _sums(multiplier, participations(rounds, separation))
    count = [_trees(COUNT_NOISE * multiplier, rounds, separation)] if counted else []
    return ComposedDpEvent([_trees(multiplier, rounds, separation), *count])


def _sums(multiplier: float, times: int) -> DpEvent:
    from dp_accounting import NonPrivateDpEvent, SelfComposedDpEvent, ZCDpEvent

    if not multiplier:
        return NonPrivateDpEvent()
    return SelfComposedDpEvent(ZCDpEvent(1 / (2 * multiplier**2), OFF), times)


def _trees(multiplier: float, rounds: int, separation: int) -> DpEvent:
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent, SingleEpochTreeAggregationDpEvent

    whole, rest = divmod(rounds, separation)
    trees = [SelfComposedDpEvent(SingleEpochTreeAggregationDpEvent(multiplier, separation), whole)] if whole else []
    return ComposedDpEvent([*trees, *([SingleEpochTreeAggregationDpEvent(multiplier, rest)] if rest else [])])
