"""Which devices a task is for: its settings. :mod:`nightjar.coordinator.rounds.admission` decides by them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.coordinator.rounds.lease import Label

Text = Annotated[
    str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_.+-]*\Z", description="letters, digits, '_', '.', '+', '-'")
]
AgentVersion = Annotated[
    str, Meta(max_length=32, pattern=r"^(\d+\.\d+\.\d+)?\Z", description="three numbers such as 0.2.1, or nothing")
]


class Eligibility(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.eligibility]``: requirements beside the model's.

    Attributes:
        minimum_agent_version: ``major.minor.patch``.
        emulated: true for emulated phones only, false for real ones only.
        labels: all of which the device must have.
    """

    minimum_agent_version: AgentVersion = ""  # the model's own minimum
    emulated: bool | None = None  # who emulates phones wants them to take part
    labels: tuple[Label, ...] = ()  # open to all devices


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.variant]``: tasks that divide the devices among themselves.

    Attributes:
        experiment: name of the experiment.
        share: the variant's share of the devices.
    """

    experiment: Text = ""  # open to all devices
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0  # all devices
