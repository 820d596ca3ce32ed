"""With which cohorts and codecs each rule works; the others are refused when a task is made. Pure.

With top-k of its own choice each device sends its largest few coordinates, and most coordinates come from few devices
or none. A median is then zero, and so is a trimmed mean whose trimming removes more devices than send a coordinate.
"""

from __future__ import annotations

import math

from coordinator.learning.strategies.aggregation import Aggregation

NEEDS = {Aggregation.TRIMMED_MEAN: (2, 1), Aggregation.MULTI_KRUM: (2, 3), Aggregation.BULYAN: (4, 3)}
"""(a, b) of the smallest cohort ``a f + b`` that a rule is defined for."""
MIDDLE = {Aggregation.MEDIAN, Aggregation.BULYAN}
"""Rules that take the middle of a coordinate's values."""


def expected(attackers: float, cohort: int) -> int:
    """f: how many devices of a cohort are expected to be malicious, rounded up.

    >>> expected(0.1, 10), expected(0.1, 11), expected(0.0, 20)
    (1, 2, 0)
    """
    return math.ceil(round(attackers * cohort, 9))


def aggregation_faults(rule: Aggregation, attackers: float, cohort: int, own_choice: float | None) -> list[str]:
    """Why a rule cannot work.

    >>> aggregation_faults(Aggregation.MULTI_KRUM, 0.1, 10, 0.01)
    []
    >>> len(aggregation_faults(Aggregation.MEDIAN, 0.1, 20, 0.01))
    1

    Args:
        rule: the rule.
        attackers: share of the devices that it expects to be malicious.
        cohort: fewest reports of a round.
        own_choice: share of the coordinates that a device sends, if it chooses them; None if all devices send the same.
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
