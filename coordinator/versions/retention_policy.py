"""What is kept, and for how long; :mod:`nightjar.coordinator.versions.retention` applies it to versions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """``[retention]``: what is kept, and for how long.

    Attributes:
        days: how long ended rounds, their reports' rows and expired certificates are kept, and the versions of devices
            that were heard from.
        versions: how many of the last current versions of each task keep their files.
        audit_days: how long entries of the audit log are kept; the newest ten thousand stay in any case.
    """

    days: Annotated[float, Meta(ge=1, le=3650)] = 30.0  # a device off for longer fetches whole weights, 6 MB at most
    versions: Annotated[int, Meta(ge=2, le=10_000)] = 20  # what an operator may want to go back to
    audit_days: Annotated[float, Meta(ge=1, le=36_500)] = 730.0  # two years: who did what outlives the year it is about
