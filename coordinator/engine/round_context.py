"""The context of a round: the manifest of its base version, update codec, and the task's requirements on devices.

It is built once per task and version and then cached, because every report and every check-in needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.coordinator.ports import BlobStore
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.admission import Requirements, Trial
from nightjar.coordinator.rounds.kinds import ON_TRIAL, kind_of
from nightjar.coordinator.rounds.report_checks import max_report_bytes
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.rounds.selection import Admission
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.models.manifest import Manifest
from nightjar.wire.codec import Codec, codec_for
from nightjar.wire.codec.codecs import name_needed
from nightjar.wire.identifiers import Sha256
from nightjar.wire.messages import Work

MOST_KEPT = 32
"""Maximum number of cached contexts, of open and recent rounds."""


@dataclass(frozen=True, slots=True)
class RoundContext:
    """The context of a round.

    Attributes:
        largest_report_bytes: longer reports are rejected without being decoded.
    """

    manifest: Manifest
    codec: Codec
    gate: Requirements
    largest_report_bytes: int


class RoundContexts:
    """Builds and caches the contexts of rounds."""

    def __init__(self, artifacts: BlobStore, share: float) -> None:
        self._artifacts = artifacts
        self._share = share
        self._kept: dict[tuple[str, str, Trial | None, int], RoundContext] = {}

    def of_round(self, task: TaskRecord, version: VersionRecord, state: Round) -> RoundContext:
        """The context of a round of this task on this version; on trial, devices only evaluate the version.

        Raises:
            NightjarError: an artifact of the version is missing or damaged.
        """
        trial = Trial(Sha256(version.manifest), self._share) if kind_of(state) is ON_TRIAL else None
        key = (task.name, version.manifest, trial, len(task.state.noised))
        context = self._kept.get(key)
        if context is None:
            manifest = Manifest.decode(self._artifacts.get(version.manifest))
            context = RoundContext(
                manifest=manifest,
                codec=codec_for(task.settings.codec.choice()),
                gate=_gate(task, manifest, trial),
                largest_report_bytes=max_report_bytes(manifest.layout),
            )
            self._kept[key] = context
            for old in list(self._kept)[:-MOST_KEPT]:
                del self._kept[old]
        return context


def _gate(task: TaskRecord, manifest: Manifest, trial: Trial | None) -> Requirements:
    settings = task.settings
    needed = name_needed(settings.codec.name, summed=settings.privacy.summed) if settings.kind is Work.TRAIN else ""
    return Requirements(
        kind=Work.EVALUATE if trial is not None and settings.plan.evaluation_share else settings.kind,
        admission=Admission(
            minimum_examples=settings.minimum_examples,
            minimum_agent_version=manifest.minimum_agent_version,
            minimum_separation=settings.minimum_separation,
            task_type=manifest.task_type,
            codec=needed,
            noised=None if task.state.noise is None else task.state.noised,
        ),
        eligibility=settings.eligibility,
        variant=settings.variant,
        slot=task.state.slot,
        trial=trial,
    )
