"""Creates tasks: the configuration's task at each start, and the tasks that operators request.

The configuration's task takes its settings from the file at each start, and keeps its model as long as its name stays
the same; a new name creates a second task beside it. The settings of a task that an operator created never change.
"""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.aggregation import with_bases
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.ports import BlobStore, Transaction
from nightjar.coordinator.records.effects import EvaluateVersion
from nightjar.coordinator.records.snapshot import Snapshot
from nightjar.coordinator.records.versions import Lineage, VersionRecord
from nightjar.coordinator.rounds.admission import free_slot
from nightjar.coordinator.storage.restored_tasks import end_restored
from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.operations import OperationRefused
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import OVER, Task, TaskStatus
from nightjar.coordinator.tasks.validation import beyond_limits, noise_terms, promise, task_faults
from nightjar.coordinator.versions.retention import without_files
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import ConfigError, LocalProtocolError, NightjarError
from nightjar.wire.messages import Work

NOISE_KEY_BYTES = 32
MOST_REASON = 200
"""Maximum length of the stored reason for pausing a task, in characters."""


def take_stock(tx: Transaction, config: CoordinatorConfig, now_s: float) -> Snapshot:
    """The snapshot at service start, with the configuration's task updated from its file.

    Raises:
        LocalProtocolError: the database lacks a version of a training task or the base version of an open round.
        ConfigError: the other tasks of its experiment leave too few devices for the configuration's task.
    """
    settings = config.task.settings()
    held = tx.task(settings.name)
    slot = _slot(tx, settings, held)
    if slot is None:
        msg = f"task.variant: {_too_few(settings)}; stop one of the others, or make the share smaller"
        raise ConfigError(msg)
    state = Task(name=settings.name, number=_next(tx), created_s=now_s) if held is None else held.state
    if held is not None and promise(held.settings) != promise(settings):
        msg = (
            "task: what differential privacy rests on (privacy, dp, rounds, goal, minimum_separation; with secure-dp "
            "minimum for goal) never changes; "
            "give the task a new name"
        )
        raise ConfigError(msg)
    state = replace(state, slot=slot, noise=state.noise or noise_terms(settings, secrets.token_hex(NOISE_KEY_BYTES)))
    rule = tasks.RuleRead(now_s, settings.stop_rule())
    tx.save_task(TaskRecord(state=tasks.step(state, rule), settings=settings))

    for record in tx.tasks():
        _hold_if_beyond(tx, record, config, now_s)
        _end_without_secrets(tx, record, now_s)
    rounds = {state.task: state for state in tx.open_rounds()}
    records = [record for record in tx.tasks() if record.state.status not in OVER or record.name in rounds]
    snapshot = Snapshot(
        {record.name: record for record in records}, rounds, sums=tx.sums(), number=tx.draw_number(now_s)
    )
    for name in {settings.name, *(record.name for record in records if record.settings.kind is Work.TRAIN)}:
        version = tx.current_version(name)
        if version is None:
            msg = f"the database holds no model version of the task {name}; import one first"
            raise LocalProtocolError(msg)
        snapshot.versions[name] = version
        training = tx.training_version(name)
        if training is not None:
            snapshot.training[name] = training
    for current in rounds.values():
        base = tx.version(current.base_version)
        if base is None:
            msg = f"round {current.number} has base version {current.base_version}, which the database lacks"
            raise LocalProtocolError(msg)
        snapshot.bases[current.number] = base
    return snapshot


def _hold_if_beyond(tx: Transaction, record: TaskRecord, config: CoordinatorConfig, now_s: float) -> None:
    """Pause a task that was created under older limits and exceeds the present ones."""
    faults = beyond_limits(record.settings, config.limits)
    if faults and record.name != config.task.name and record.state.status is TaskStatus.ACTIVE:
        reason = f"outside [limits]: {'; '.join(faults)}"[:MOST_REASON]
        tx.save_task(replace(record, state=tasks.step(record.state, tasks.Paused(now_s, reason, "limits"))))


def _end_without_secrets(tx: Transaction, record: TaskRecord, now_s: float) -> None:
    """End a task whose noise cannot be drawn: somebody put the database of a backup in place without ``restore``."""
    noise = record.state.noise
    if noise is not None and not noise.honest and not noise.key and record.state.status not in OVER:
        end_restored(tx, record, tx.last_round_number(), now_s)


class TaskCreator:
    """Creates the tasks that operators request."""

    def __init__(self, config: CoordinatorConfig, artifacts: BlobStore) -> None:
        self._config = config
        self._measured = config.task.evaluation_text is not None
        self._artifacts = artifacts

    def forbids(self, settings: TaskSettings) -> str:
        """Why ``[limits]`` forbids a task to open rounds; empty if it does not."""
        return "; ".join(beyond_limits(settings, self._config.limits))

    def make(self, settings: TaskSettings, manifest: str | None, unit: UnitOfWork) -> TaskRecord | OperationRefused:
        """Create a task, which has no round yet.

        ``manifest`` is the hash of the manifest of an imported model to start from; None takes the source in the
        settings.
        """
        if unit.tx.task(settings.name) is not None:
            return OperationRefused(
                f"there is a task {settings.name} already, perhaps one that is over; take another name"
            )
        faults = task_faults(settings, self._config.limits, measured=self._measured, enrolled=self._config.tls)
        if faults:
            return OperationRefused("; ".join(faults))
        slot = _slot(unit.tx, settings, None)
        if slot is None:
            return OperationRefused(f"variant.share: {_too_few(settings)}")
        source = self._source(settings, unit)
        if isinstance(source, OperationRefused):
            return source
        if settings.kind is Work.TRAIN:
            version = self._version(settings, source, manifest, unit)
            if isinstance(version, OperationRefused):
                return version
            unit.tx.add_version(version)
            if version.metrics is None and self._measured:
                unit.effects.append(EvaluateVersion(version.version))
            unit.snapshot.versions[settings.name] = version
        elif manifest is not None:
            return OperationRefused("an evaluation tries a version that there is: give source.task or source.version")
        state = Task(
            name=settings.name,
            number=_next(unit.tx),
            created_s=unit.now_s,
            slot=slot,
            since_s=unit.now_s,
            noise=noise_terms(settings, secrets.token_hex(NOISE_KEY_BYTES)),
        )
        record = TaskRecord(state=state, settings=settings)
        unit.save_task(record)
        return record

    def _source(self, settings: TaskSettings, unit: UnitOfWork) -> VersionRecord | OperationRefused:
        """The version that a training task starts from, or that an evaluation task tries first."""
        source = settings.source
        if source.version is not None:
            fixed = unit.tx.version(source.version)
            if fixed is None:
                return OperationRefused(f"source.version: there is no version {source.version}")
            if fixed.pruned_s is not None:
                return OperationRefused(f"source.version: {without_files(fixed.version)}")
            return fixed
        name = source.task or self._config.task.name
        newest = unit.tx.current_version(name)
        return OperationRefused(f"source.task: there is no training task {name}") if newest is None else newest

    def _version(
        self, settings: TaskSettings, source: VersionRecord, imported: str | None, unit: UnitOfWork
    ) -> VersionRecord | OperationRefused:
        number = unit.tx.last_version_number() + 1
        try:
            manifest = Manifest.decode(self._artifacts.get(imported or source.manifest))
            other = Manifest.decode(self._artifacts.get(source.manifest)).task_type
        except NightjarError as error:
            return OperationRefused(f"the model cannot be read: {error}")
        if self._measured and manifest.task_type != other:
            return OperationRefused(
                f"the model is of the task type {manifest.task_type}, and evaluation_text measures {other}: "
                "let another coordinator serve it, or leave out evaluation_text"
            )
        # The same weights get a new version number, so that the reports of the two tasks can be told apart.
        manifest = replace(manifest, version=number, bases=None if imported else manifest.bases)
        manifest = with_bases(manifest, settings.privacy, self._config.seed, self._artifacts)
        stored = self._artifacts.put(manifest.encode())
        return VersionRecord(
            version=number,
            task=settings.name,
            manifest=stored,
            rollout=Rollout(stage=Stage.CURRENT, reason="made for the task", since_s=unit.now_s),
            created_s=unit.now_s,
            metrics=None if imported else source.metrics,
            lineage=Lineage(parent=None if imported else source.version, seed=self._config.seed),
        )


def _slot(tx: Transaction, settings: TaskSettings, held: TaskRecord | None) -> float | None:
    """Start of the task's share of the devices: unchanged, or a free slot of its experiment; None if none fits."""
    variant = settings.variant
    if not variant.experiment:
        return 0.0
    if held is not None and held.settings.variant == variant:
        return held.state.slot
    others = [record for record in tx.tasks() if record.settings.variant.experiment == variant.experiment]
    others = [record for record in others if record.state.status not in OVER and record.name != settings.name]
    return free_slot(variant.share, [(record.state.slot, record.settings.variant.share) for record in others])


def _too_few(settings: TaskSettings) -> str:
    variant = settings.variant
    return f"too few devices of the experiment {variant.experiment} are left for {variant.share:g}"


def _next(tx: Transaction) -> int:
    return max((record.state.number for record in tx.tasks()), default=0) + 1
