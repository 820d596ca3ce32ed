"""The settings of canary trials. :mod:`nightjar.coordinator.versions.rollout` carries them out."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class TrialPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """``[rollout]``: how many devices try a new version first, and for how long.

    Attributes:
        share: share of the devices that try it first.
        devices: how many must try it before the verdict.
        hours: after which fewer devices suffice.
    """

    share: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # all at once: a household has few; a fleet uses 0.05
    devices: Annotated[int, Meta(ge=1, le=10**6)] = 10  # fewer vary too much
    hours: Annotated[float, Meta(gt=0, le=8760)] = 24.0  # most phones charge daily
