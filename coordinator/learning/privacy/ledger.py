"""The ledger of a task: what differential privacy it promises each device, what it has spent, and what it assumes."""

from __future__ import annotations

import msgspec

_ALWAYS = (
    "a device is one person's; with two devices a person has up to twice the epsilon",
    "several tasks add up, and a task without differential privacy promises nothing",
    "it does not rely on chance in the selection of devices, nor on how many there are",
)
ASSUMPTIONS = (
    "the coordinator sees each report, adds the noise and keeps its secrets: whoever has its database can take "
    "the noise off the versions",
    "the promise is about published versions, not about who takes part and drops out, which operators see",
    *_ALWAYS,
    "noise is drawn in floating point from a keyed generator",
)
IN_SUMS = (
    "fewer than a third of a sum's fewest devices work with the coordinator; the others add their noise and keep it",
    "the coordinator certifies the devices' keys, so one that invents devices is not covered; nor is who takes part",
    *_ALWAYS,
    "noise is drawn in whole numbers from the operating system's generator",
)
"""Assumptions where devices add the noise."""


class Clipping(msgspec.Struct, frozen=True, kw_only=True):
    """How a clip norm follows the updates (:mod:`nightjar.coordinator.learning.privacy.adaptive_clipping`).

    Attributes:
        quantile: share of the updates within the clip norm that it follows.
        noise: deviation of the noise in the count of these updates.
        epsilon: after all rounds, of the counts alone; it is part of the ledger's.
    """

    quantile: float
    noise: float
    epsilon: float


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The privacy ledger of a task; the unit is a device.

    Attributes:
        epsilon: after all rounds.
        rounds: committed rounds that the task ends after.
        spent: epsilon after the rounds so far.
        noised: rounds so far.
        participations: how often a device can take part.
        separation: committed rounds from one time to the next, at least.
        multiplier: deviation of a node's noise over the sensitivity.
        noise: deviation of the noise in each coordinate of a round's mean.
        influence: most that a device moves a round's mean, L2 norm.
        clipping: how the clip norm changes; then noise and influence are those of the first round. None if it does not.
        assumptions: what the promise rests on.
    """

    epsilon: float
    delta: float
    rounds: int
    spent: float
    noised: int
    participations: int
    separation: int
    multiplier: float
    noise: float
    influence: float
    clipping: Clipping | None = None
    unit: str = "device"
    assumptions: tuple[str, ...] = ASSUMPTIONS


def explain(ledger: Ledger) -> list[str]:
    """The ledger in sentences, for people."""
    clipping = ledger.clipping
    times = "once" if ledger.participations == 1 else f"{ledger.participations} times"
    apart = f", and at most once in any {ledger.separation} committed rounds in a row" if ledger.separation > 1 else ""
    return [
        f"after {ledger.rounds} rounds: epsilon {ledger.epsilon:.1f}, delta {ledger.delta:g}, for each {ledger.unit}; "
        f"after the {ledger.noised} so far: epsilon {ledger.spent:.1f}",
        f"a device takes part at most {times}{apart}",
        f"it moves a round's mean by at most {ledger.influence:.3g}, and the noise has the deviation "
        f"{ledger.noise:.3g} in each coordinate" + ("" if clipping is None else ", in the first round"),
        *(
            []
            if clipping is None
            else [
                f"the clip norm follows the norm that {clipping.quantile:.0%} of the updates are within, by a count "
                f"with noise of the deviation {clipping.noise:.3g}; of the epsilon, the counts alone would be "
                f"{clipping.epsilon:.1f}"
            ]
        ),
        *(f"assumed: {each}" for each in ledger.assumptions),
    ]
