"""Which devices are not of the fleet, and why; the same rule in SQL and for one lease.

A device is put under the first reason that holds. Nobody is lost by a clock that is not trusted: the caller then names
no time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import sqlalchemy as sa

from nightjar.coordinator.enrolment.claims import KeyState
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.storage.fleet import BLOCKED, LOST, NEVER, REVOKED
from nightjar.coordinator.storage.tables import credentials, devices
from nightjar.wire.identifiers import DeviceId

LOST_AFTER_DAYS = 30
"""As long as retention keeps the version that a device holds: one that comes back later is of the fleet again."""
LOST_AFTER_S = LOST_AFTER_DAYS * 86400.0

_REVOKED = sa.and_(
    devices.c.device.in_(sa.select(credentials.c.device)),
    devices.c.device.not_in(sa.select(credentials.c.device).where(credentials.c.standing != KeyState.REVOKED.value)),
)
"""A device that had certificates, and lost them for good."""


def why_apart(lost_before_s: float, of: sa.FromClause = devices) -> sa.ColumnElement[Any]:
    """Why a row of the table of devices is not of the fleet; empty if it is.

    Args:
        lost_before_s: devices last heard of before this time are lost; 0 if no clock can tell.
        of: the table, or some rows of it.
    """
    c = of.c
    revoked = _REVOKED if of is devices else c.device.in_(sa.select(devices.c.device).where(_REVOKED))
    return sa.case(
        (revoked, REVOKED),
        (c.blocked != "", BLOCKED),
        (sa.and_(c.state == "", c.last_seen_s <= 0), NEVER),
        (sa.and_(c.last_seen_s > 0, c.last_seen_s < lost_before_s), LOST),
        else_="",
    )


def apart(lease: Lease, lost_before_s: float, *, revoked: bool) -> str:
    """Why a device is not of the fleet; empty if it is.

    >>> from nightjar.wire.identifiers import DeviceId
    >>> apart(Lease(device=DeviceId("a"), last_seen_s=5.0, state="offline"), 9.0, revoked=False)
    'lost'
    """
    if revoked or lease.blocked:
        return REVOKED if revoked else BLOCKED
    if not lease.state and lease.last_seen_s <= 0:
        return NEVER
    return LOST if 0 < lease.last_seen_s < lost_before_s else ""


def reasons_apart(leases: Iterable[Lease], lost_before_s: float, revoked: Container[DeviceId]) -> dict[DeviceId, str]:
    """Of each device why it is not of the fleet; empty if it is."""
    return {each.device: apart(each, lost_before_s, revoked=each.device in revoked) for each in leases}


def lost_before(now_s: float, distrust: str) -> float:
    """Devices last heard of before this time are lost; 0 while ``distrust`` says why the clock is not trusted."""
    return 0.0 if distrust else now_s - LOST_AFTER_S
