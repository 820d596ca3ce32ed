"""The ledger of a task: what differential privacy it promises each device, what it has spent, and what it assumes."""

from __future__ import annotations

import enum

import msgspec

from coordinator.learning.privacy.accounting import epsilon_after, participations
from coordinator.learning.privacy.noised_mean import NoiseTerms


class Privacy(enum.Enum):
    """How a task protects what devices learned."""

    NONE = "none"
    DP = "dp"
    """Differential privacy of each device: clipped updates, and noise in each mean."""
    SECURE_SUM = "secure-sum"
    """The coordinator learns only the sum of the reports (docs/adr/0038)."""


ASSUMPTIONS = (
    "the coordinator sees each report, adds the noise and keeps its key to itself: whoever has its database can take "
    "the noise off the versions",
    "the promise is about published versions, not about the losses, counts and dropouts that operators see",
    "a device is one person's; with two devices a person has up to twice the epsilon",
    "several tasks add up, and a task without differential privacy promises nothing",
    "it does not rely on chance in the selection of devices, nor on how many there are",
    "noise is drawn in floating point from a keyed generator",
)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The privacy ledger of a task; the unit is a device.

    Attributes:
        epsilon: after all rounds.
        delta: delta.
        rounds: committed rounds that the task ends after.
        spent: epsilon after the rounds so far.
        noised: rounds so far.
        participations: how often a device can take part.
        separation: committed rounds from one time to the next, at least.
        multiplier: deviation of a node's noise over the sensitivity.
        noise: deviation of the noise in each coordinate of a round's mean.
        influence: most that a device moves a round's mean, L2 norm.
        unit: who is protected.
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
    unit: str = "device"
    assumptions: tuple[str, ...] = ASSUMPTIONS


def ledger_of(terms: NoiseTerms, delta: float, rounds: int, noised: int) -> Ledger:
    """The ledger of a task.

    Args:
        terms: how its sums are noised.
        delta: delta.
        rounds: committed rounds that the task ends after.
        noised: rounds so far.
    """
    influence = terms.clip_norm / terms.devices
    return Ledger(
        epsilon=epsilon_after(terms.multiplier, rounds, terms.separation, delta),
        delta=delta,
        rounds=rounds,
        spent=epsilon_after(terms.multiplier, noised, terms.separation, delta),
        noised=noised,
        participations=participations(rounds, terms.separation),
        separation=terms.separation,
        multiplier=terms.multiplier,
        noise=terms.multiplier * influence,
        influence=influence,
    )


def explain(ledger: Ledger) -> list[str]:
    """The ledger in sentences, for people."""
    times = "once" if ledger.participations == 1 else f"{ledger.participations} times"
    return [
        f"after {ledger.rounds} rounds: epsilon {ledger.epsilon:.1f}, delta {ledger.delta:g}, for each {ledger.unit}; "
        f"after the {ledger.noised} so far: epsilon {ledger.spent:.1f}",
        f"a device takes part at most {times}, and at most once in any {ledger.separation} committed rounds in a row",
        f"it moves a round's mean by at most {ledger.influence:.3g}, and the noise has the deviation "
        f"{ledger.noise:.3g} in each coordinate",
        *(f"assumed: {each}" for each in ledger.assumptions),
    ]
