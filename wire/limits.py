"""Privacy limits on a task, set in the coordinator's configuration and again in the agent's own.

Published versions can be subtracted: the difference of two versions is the mean of a cohort's updates. So the smallest
cohort, the densest update and the shortest training bound what anybody can learn about one device (docs/privacy.md). An
operator cannot lower the coordinator's limits, nor a coordinator the agent's.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.wire.messages import CodecChoice
from nightjar.wire.secure_sum.terms import threshold_for

HOUSEHOLD = 2
"""Smallest cohort in a household, whose members may know what the others typed; a mean needs at least two devices."""
HOUSEHOLD_WARNING = (
    "household: each version is a mean of as few as two devices, so each device can compute what the other learned: "
    "every word that it typed, nearly; see docs/privacy.md"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """``[limits]``: for every task of a coordinator; for every coordinator of a device.

    Attributes:
        cohort: fewest reports in a published mean.
        density: largest share of coordinates in an update; 1 allows dense codecs.
        steps: fewest training steps behind an update.
        household: makes ``cohort`` 2.
        epsilon: most differential privacy that a task spends, and all tasks together on a device; set, it excludes
            tasks without.
    """

    cohort: Annotated[int, Meta(ge=1, le=2**31)] = 10  # words can be traced to a group of ten
    density: Annotated[float, Meta(gt=0, le=1)] = 0.1  # ten times the usual; dense updates reveal text
    steps: Annotated[int, Meta(ge=1, le=10**6)] = 1  # little text makes one batch
    household: bool = False  # users are strangers to each other
    epsilon: Annotated[float, Meta(gt=0, le=1e6)] | None = None  # takes a large fleet

    @property
    def least_cohort(self) -> int:
        """Fewest reports in a published mean."""
        return HOUSEHOLD if self.household else self.cohort


NONE = Limits(cohort=1, density=1.0)
"""No limits: for simulations without real users."""


def outside(
    limits: Limits,
    minimum: int,
    codec: CodecChoice,
    max_steps: int,
    epsilon: float | None = None,
    threshold: int | None = None,
) -> list[str]:
    """The faults of a task that is outside the limits.

    A round commits with at least ``minimum`` reports. A task without differential privacy has no epsilon, one without
    secure sums no threshold.

    >>> outside(Limits(), 10, CodecChoice(), 100)
    []
    >>> outside(Limits(household=True), 1, CodecChoice(name="dense-f32"), 1)
    ['minimum: expected at least 2, got 1', 'codec: expected a density of at most 0.1, got 1 (dense-f32)']
    """
    faults = []
    if minimum < limits.least_cohort:
        faults.append(f"minimum: expected at least {limits.least_cohort}, got {minimum}")
    if threshold is not None and threshold < threshold_for(limits.least_cohort):
        faults.append(f"secure_sum.threshold: expected at least {threshold_for(limits.least_cohort)}, got {threshold}")
    density = (
        codec.density if codec.name.startswith(("topk-", "sampled-")) else 1.0
    )  # another package's may send anything
    if threshold is None and density > limits.density:
        faults.append(f"codec: expected a density of at most {limits.density:g}, got {density:g} ({codec.name})")
    if max_steps < limits.steps:
        faults.append(f"plan.max_steps: expected at least {limits.steps}, got {max_steps}")
    if limits.epsilon is not None and (epsilon is None or epsilon > limits.epsilon):
        faults.append(
            f"privacy: expected an epsilon of at most {limits.epsilon:g}, got "
            f"{'no differential privacy' if epsilon is None else f'{epsilon:g}'}"
        )
    return faults
