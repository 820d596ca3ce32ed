"""What a task lets the coordinator learn from devices. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nightjar.coordinator.tasks.settings import Privacy


@dataclass(frozen=True, slots=True)
class Exposure:
    """What the attack benchmark found out about the model that gives away more (docs/privacy.md has the command).

    Attributes:
        recall: share of the words typed that an attacker names.
        guess: the same by naming as many of the commonest words.
        membership: area under the curve for "did this device take part?"; 0.5 is a coin.
    """

    recall: float
    guess: float
    membership: float


REPORT = Exposure(0.94, 0.43, 1.00)
MASKED_REPORT = Exposure(0.45, 0.45, 0.50)
VERSIONS: Mapping[int, Exposure] = {
    2: Exposure(0.98, 0.50, 0.99),
    5: Exposure(0.98, 0.54, 0.93),
    20: Exposure(0.98, 0.62, 0.64),
    100: Exposure(0.99, 0.69, 0.54),
}
"""Difference of two versions, by size of the cohort."""
SUMS: Mapping[int, Exposure] = {
    2: Exposure(0.92, 0.54, 0.95),
    5: Exposure(0.92, 0.61, 0.78),
    20: Exposure(0.88, 0.74, 0.56),
    100: Exposure(0.99, 0.98, 0.50),
}
"""A sum of low rank, by size of the cohort."""


MINIMUM_OF_SUMS = 10
"""Smaller cohorts are households: they know each other, and could not spare devices."""
LEARNED = (6.6, 4.0)
"""Top-1 of the large model after equally many rounds with dense updates and with sums, in per cent (ADR 45)."""


def explained(privacy: Privacy, minimum: int, threshold: int) -> list[str]:
    """Who can learn what, in sentences.

    ``minimum`` is the fewest reports of a round, and ``threshold`` that of its secure sums.
    """
    dense, summed = LEARNED
    cost = f"from random weights the large model reached {summed} % top-1 in 60 rounds with sums, and {dense} % without"
    if not privacy.summed:
        return [
            f"The coordinator, and whoever reads its database or the broker's traffic during a round, reads each "
            f"device's report: {_in_words(REPORT)}.",
            f"Whoever holds two published versions, such as every device, knows the mean of a round of {minimum} or "
            f"more: {_of_cohort(VERSIONS, minimum)}.",
            "Nobody gets typed text; how much was typed, how well words were predicted and, of a keyboard, how many "
            "keystrokes it saves with two versions and which version it has, is in each report.",
            *([f'privacy = "secure-sum" would hide single reports; {cost}.'] if minimum >= MINIMUM_OF_SUMS else []),
        ]
    whole = f"The coordinator, even together with {threshold - 1} of the devices, learns the sum of {minimum} or more "
    if privacy.noised:
        found = (
            "reports with the noise that the devices add, and nothing else about one; so does whoever holds versions."
        )
    else:
        found = f"reports and nothing else about one: {_of_cohort(SUMS, minimum)}."
    return [
        whole + found,
        f"A single report, as the coordinator, its database and the broker have it: {_in_words(MASKED_REPORT)}, "
        "no more than a guess.",
        *(
            []
            if privacy.noised
            else [
                "Whoever holds two published versions knows that sum, too. It says which words were typed, not by whom."
            ]
        ),
        "The coordinator knows which devices take part, and when. It certifies their keys, so one that invents devices "
        "of its own is not covered. Nobody can check a single report, so one device can spoil a round.",
        f"Sums are of low rank, which learns more slowly: {cost}.",
    ]


def _of_cohort(found: Mapping[int, Exposure], minimum: int) -> str:
    size = max((each for each in found if each <= minimum), default=min(found))
    return f"of {size} devices, {_in_words(found[size])}"


def _in_words(found: Exposure) -> str:
    words = f"names {100 * found.recall:.0f} % of the words typed (guessing common ones: {100 * found.guess:.0f} %)"
    return f"an attack {words} and tells who took part with an AUC of {found.membership:.2f} (a coin: 0.50)"
