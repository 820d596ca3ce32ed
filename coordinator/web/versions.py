"""A version of the model with all that is known of it, for the API, the pages and the command line."""

from __future__ import annotations

import msgspec

from coordinator.learning.device_metrics import FederatedMetrics, Tally, figures
from coordinator.ports import Lineage, VersionRecord
from coordinator.web.rows import VersionRow, version_row


class VersionDetail(VersionRow, frozen=True, kw_only=True):
    """A version: where it is and why, what it was made of, and what was measured of it.

    ``since`` is seconds since 1970. ``federated`` is what devices found: in numbers over all of them, never of one.
    """

    round: int | None
    reason: str
    since: float
    lineage: Lineage | None
    federated: FederatedMetrics


def version_detail(record: VersionRecord, tally: Tally) -> VersionDetail:
    """A version as people see it.

    Args:
        record: the version.
        tally: what devices found of it.
    """
    return VersionDetail(
        **msgspec.structs.asdict(version_row(record)),
        round=record.round,
        reason=record.rollout.reason,
        since=record.rollout.since_s,
        lineage=record.lineage,
        federated=figures(tally),
    )
