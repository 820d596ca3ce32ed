"""What is stored of a version of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from nightjar.coordinator.learning.strategies import StrategyChoice
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.wire.messages import CodecChoice


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """What a version was made of."""

    parent: int | None = None  # the version that its reports were trained from; None for an imported version
    reports: int = 0  # number of reports in the mean
    reports_sha256: str = ""  # SHA-256 over the hex hashes of the reports' frames, in ascending order of device id
    seed: int = 0  # of the coordinator
    code_version: str = ""  # of this program
    strategy: StrategyChoice | None = None  # how the mean update changed the model
    codec: CodecChoice | None = None


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the model."""

    version: int  # counted over all tasks; 0 is the first imported one
    task: str = ""
    manifest: str  # hash of the manifest, an artifact
    round: int | None = None  # the round that made it; None for an imported version
    optimizer_state: str | None = None  # hash of the server optimizer's state after its round
    clip_norm: float | None = None  # L2 norm that updates to it are clipped to; None if no round made it
    created_s: float = 0.0  # wall-clock time
    metrics: VersionMetrics | None = None  # on the held-out text; None until measured, or if there is no such text
    rollout: Rollout = Rollout(stage=Stage.CURRENT)
    lineage: Lineage | None = None  # what it was made of; None for an imported version
    by_hand: bool = False  # whether an operator promoted it, so that it is kept
    pruned_s: float | None = None  # when its files were deleted; None while they are there


def ancestors(version: VersionRecord, known: Callable[[int], VersionRecord | None]) -> Iterator[VersionRecord]:
    """The versions that a version was trained from, newest first, as far back as they are known."""
    while version.lineage is not None and version.lineage.parent is not None:
        parent = known(version.lineage.parent)
        if parent is None:
            return
        yield parent
        version = parent
