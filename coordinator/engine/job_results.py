"""Stores the worker's results, such as a new version, and tells the rounds that wait for them."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from nightjar.coordinator import __version__
from nightjar.coordinator.engine.rollout_service import RolloutService
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.ports import BlobStore
from nightjar.coordinator.records.effects import EvaluateVersion, PendingEffect
from nightjar.coordinator.records.jobs import (
    AggregationDone,
    EvaluationDone,
    FiguresDone,
    JobFailed,
    Result,
    TooFewReadable,
)
from nightjar.coordinator.records.versions import Lineage, VersionRecord
from nightjar.coordinator.rounds.events import (
    AggregationFailed,
    AggregationFinished,
    ReportsUnreadable,
    RoundEvents,
    StartAggregation,
)
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.versions.rollout import Rollout
from nightjar.models.manifest import Artifact, Manifest
from nightjar.wire.identifiers import DeviceId

NAMED = 20
"""Maximum number of devices named in one log line."""


class JobResults:
    """Applies job results. A job's effect stays in the database until then, so the job survives a restart."""

    def __init__(self, artifacts: BlobStore, rollouts: RolloutService, seed: int) -> None:
        self._artifacts = artifacts
        self._seed = seed
        self._rollouts = rollouts
        self._jobs: dict[PendingEffect, int] = {}

    def expect(self, effect: PendingEffect, number: int) -> None:
        """Remember the database row of the effect that started a job; the row is removed when the result arrives."""
        self._jobs[effect] = number

    def take(self, result: Result, unit: UnitOfWork) -> RoundEvents:
        """Store the result of a job; its round may have ended long ago.

        Returns:
            What the rounds have to hear of it.

        Raises:
            UnavailableError: the disk or the database failed.
        """
        match result:
            case AggregationDone():
                state = self._ended(unit, result.round)
                if state is not None:
                    return self._commit(unit, state, result)
            case TooFewReadable(number, devices):
                state = self._ended(unit, number)
                if state is not None:
                    _name("reports_unreadable", unit, number, devices)
                    return ((state.task, ReportsUnreadable(devices, unit.now_s)),)
            case FiguresDone(number, federated):
                state = self._ended(unit, number)
                if state is not None:
                    events = self._rollouts.note_figures(state.base_version, federated, unit)
                    return (*events, (state.task, AggregationFinished(None, unit.now_s)))
            case EvaluationDone(version, metrics):
                self._forget(unit, EvaluateVersion(version))
                self._rollouts.note_measured(version, metrics, unit)
                _tell(unit, version, metrics)
            case JobFailed(reason, round_number, version_number):
                unit.warn("job_failed", round=round_number, version=version_number, reason=reason)
                if version_number is not None:
                    self._forget(unit, EvaluateVersion(version_number))
                if round_number is not None:
                    state = self._ended(unit, round_number)
                    if state is not None:
                        return ((state.task, AggregationFailed(reason, unit.now_s)),)
        return ()

    def _ended(self, unit: UnitOfWork, number: int) -> Round | None:
        """The round whose job has ended, if it still waits for it."""
        self._forget(unit, StartAggregation(number))
        state = unit.snapshot.round(number)
        return state if state is not None and state.phase is Phase.COMMITTING else None

    def _forget(self, unit: UnitOfWork, effect: PendingEffect) -> None:
        number = self._jobs.get(effect)
        if number is not None:
            unit.tx.remove_effects([number])
            unit.after_commit.append(lambda: self._jobs.pop(effect, None))

    def _commit(self, unit: UnitOfWork, state: Round, done: AggregationDone) -> RoundEvents:
        task, base, number = state.task, unit.snapshot.bases[state.number], unit.tx.last_version_number() + 1
        weights = Artifact(done.weights, done.size_bytes)
        manifest = replace(
            Manifest.decode(self._artifacts.get(base.manifest)),
            version=number,
            weights=weights,
            transfers=done.transfers,
            bases=done.bases,
        )
        made = VersionRecord(
            version=number,
            task=task,
            manifest=self._artifacts.put(manifest.encode()),
            round=done.round,
            optimizer_state=done.optimizer_state,
            clip_norm=done.clip_norm,
            created_s=unit.now_s,
            metrics=done.metrics,
            rollout=Rollout(),
            lineage=self._lineage(state, done, unit),
        )
        events = self._rollouts.note_figures(base.version, done.federated, unit)
        self._rollouts.take_in(made, done.federated.devices, unit)
        if done.metrics is not None:
            _tell(unit, number, done.metrics)
        if done.unreadable:
            _name("reports_unreadable", unit, done.round, done.unreadable)
        if done.left_out:
            _name("reports_left_out", unit, done.round, done.left_out)
        return (*events, (task, AggregationFinished(number, unit.now_s, done.unreadable)))

    def _lineage(self, state: Round, done: AggregationDone, unit: UnitOfWork) -> Lineage:
        """The lineage of the version that a round made."""
        settings = unit.snapshot.tasks[state.task].settings
        averaged = [
            report.sha256
            for report in unit.tx.reports(state.number)
            if state.seats[report.device].state is SeatState.REPORTED and report.device not in done.unreadable
        ]
        return Lineage(
            parent=state.base_version,
            reports=len(averaged),
            reports_sha256=hashlib.sha256("".join(averaged).encode()).hexdigest(),
            seed=self._seed,
            code_version=__version__,
            strategy=settings.strategy.choice(),
            codec=settings.codec.choice(),
        )


def _name(event: str, unit: UnitOfWork, number: int, devices: tuple[DeviceId, ...]) -> None:
    unit.tx.count(event, len(devices))
    names = ", ".join(devices[:NAMED])
    unit.warn(event, round=number, count=len(devices), devices=names)


def _tell(unit: UnitOfWork, version: int, metrics: VersionMetrics) -> None:
    figures = {"top1": round(metrics.top1, 4), "top3": round(metrics.top3, 4), "loss": round(metrics.loss, 4)}
    unit.log("version_measured", version=version, **figures)
