"""What a task may ask of a device at most: in the coordinator's file, and again in the agent's own.

What is published can be subtracted: of two versions, the difference is the mean of a cohort's updates. So the smallest
cohort, the densest update and the shortest training bound what anybody can find out about one device (docs/privacy.md).
An operator cannot lower the coordinator's limits, nor a coordinator the agent's.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from wire.messages import CodecChoice

HOUSEHOLD = 2
"""Devices of people who may know of each other what the others typed; one is no mean."""
HOUSEHOLD_WARNING = (
    "household: each version is a mean of as few as two devices, so each device can compute what the other learned: "
    "every word that it typed, nearly; see docs/privacy.md"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """``[limits]``: what no task can go below on a coordinator, and no coordinator on a device.

    Attributes:
        cohort: fewest reports in a mean that is published.
        density: largest share of the coordinates in an update; 1 allows the dense codecs.
        steps: fewest training steps behind an update.
        household: the devices are of one household; ``cohort`` does not count then.
    """

    cohort: Annotated[int, Meta(ge=1, le=2**31)] = 10  # the words of one among ten are still known to be of the ten
    density: Annotated[float, Meta(gt=0, le=1)] = 0.1  # ten times what is learned with; a dense update gives text away
    steps: Annotated[int, Meta(ge=1, le=10**6)] = 1  # a device with little text has one batch
    household: bool = False  # strangers unless somebody says so

    @property
    def least_cohort(self) -> int:
        """Fewest reports in a mean that is published."""
        return HOUSEHOLD if self.household else self.cohort


NONE = Limits(cohort=1, density=1.0)
"""Anything goes: for simulations, in which nobody typed anything."""


def outside(limits: Limits, minimum: int, codec: CodecChoice, max_steps: int) -> list[str]:
    """What of a task is outside the limits.

    >>> outside(Limits(), 10, CodecChoice(), 100)
    []
    >>> outside(Limits(household=True), 1, CodecChoice(name="dense-f32"), 1)
    ['minimum: expected at least 2, got 1', 'codec: expected a density of at most 0.1, got 1 (dense-f32)']

    Args:
        limits: that hold.
        minimum: fewest reports that a round commits with.
        codec: of the updates.
        max_steps: most training steps.
    """
    faults = []
    if minimum < limits.least_cohort:
        faults.append(f"minimum: expected at least {limits.least_cohort}, got {minimum}")
    density = 1.0 if codec.name.startswith("dense-") else codec.density
    if density > limits.density:
        faults.append(f"codec: expected a density of at most {limits.density:g}, got {density:g} ({codec.name})")
    if max_steps < limits.steps:
        faults.append(f"plan.max_steps: expected at least {limits.steps}, got {max_steps}")
    return faults
