"""Detailed view of a model version, for the API, the pages and the command line."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coordinator.learning.device_metrics import FederatedMetrics, Tally, figures
from coordinator.ports import Lineage, VersionRecord
from coordinator.web.rows import VersionRow, version_row


class VersionDetail(VersionRow, frozen=True, kw_only=True):
    """A version: its stage and the reason for it, its lineage, and its metrics.

    ``since`` is when it entered the stage, in seconds since 1970. ``federated`` is what devices measured: aggregated
    over all of them, never for one.
    """

    round: int | None
    reason: str
    since: float
    lineage: Lineage | None
    federated: FederatedMetrics


def recall_on_devices(tallies: Mapping[int, Tally]) -> dict[int, float]:
    """Mean top-1 recall that devices measured, by version; versions that none measured are left out."""
    found = {number: figures(tally).top1_before for number, tally in tallies.items()}
    return {number: spread.mean for number, spread in found.items() if spread is not None}


def version_detail(record: VersionRecord, tally: Tally) -> VersionDetail:
    """The detailed view of a version."""
    return VersionDetail(
        **msgspec.structs.asdict(version_row(record)),
        round=record.round,
        reason=record.rollout.reason,
        since=record.rollout.since_s,
        lineage=record.lineage,
        federated=figures(tally),
    )
