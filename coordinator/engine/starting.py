"""What a leader puts in order before its driver starts."""

from __future__ import annotations

import hashlib

import msgspec
import structlog

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.aggregation import with_bases
from nightjar.coordinator.records.effects import EvaluateVersion
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.model_folder import import_model
from nightjar.coordinator.storage.signed_programs import signed_program_in
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.task import without_best
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.models.manifest import Manifest
from nightjar.models.task_types import task_type
from nightjar.wire.errors import ConfigError, IntegrityError

_log = structlog.get_logger("coordinator")


def prepare(config: CoordinatorConfig, database: Database, artifacts: FileBlobs, now_s: float) -> None:
    """Import the first model, check the held-out text, and delete what a killed process left.

    Raises:
        ConfigError: the model or the evaluation text cannot be used.
        UnavailableError: the disk or the database does not work.
    """
    import_once(config, database, artifacts, now_s)
    _check_held_out(config, database, artifacts)
    _sweep(database)


def import_once(config: CoordinatorConfig, database: Database, artifacts: FileBlobs, now_s: float) -> None:
    """Import the model if the task has none, and queue the measurement of current versions on a changed text."""
    with database.transaction() as tx:
        task = config.task
        signed = signed_program_in(task.model)
        if signed is not None:
            tx.keep_signed_program(signed)
        held = _held(task.name, tx)
        for version in held:
            manifest = _manifest(version, artifacts)
            stored = artifacts.put(with_bases(manifest, task.privacy, config.seed, artifacts).encode())
            tx.save_version(msgspec.structs.replace(version, manifest=stored))
        if held:
            _measure_again(config, tx)
            return
        number = 0 if tx.current_version() is None else tx.last_version_number() + 1
        manifest = msgspec.structs.replace(import_model(task.model, artifacts), version=number)
        stored = artifacts.put(with_bases(manifest, task.privacy, config.seed, artifacts).encode())
        tx.add_version(
            VersionRecord(
                version=number,
                task=task.name,
                manifest=stored,
                created_s=now_s,
                rollout=Rollout(stage=Stage.CURRENT, reason="imported", since_s=now_s),
            )
        )
        _measure_again(config, tx)
    _log.info("model_imported", configuration=manifest.configuration, parameters=manifest.layout.size)


def _manifest(version: VersionRecord, artifacts: FileBlobs) -> Manifest:
    """The manifest of a version that the next start needs.

    Raises:
        ConfigError: it is gone or damaged.
    """
    try:
        return Manifest.decode(artifacts.get(version.manifest))
    except IntegrityError as error:
        msg = f"version {version.version} of {version.task} is damaged: {error}"
        raise ConfigError(msg) from error


def _held(task: str, tx: DatabaseView) -> list[VersionRecord]:
    """The current version of a task, and the one that its rounds train from, if there are such."""
    return [each for each in (tx.current_version(task), tx.training_version(task)) if each is not None]


def _check_held_out(config: CoordinatorConfig, database: Database, artifacts: FileBlobs) -> None:
    """Read the evaluation text once: the worker reads it much later, and its faults are to be known now."""
    with database.transaction() as tx:
        current = tx.current_version(config.task.name)
    if current is not None and config.task.evaluation_text is not None:
        manifest = _manifest(current, artifacts)
        task_type(manifest.task_type).check_held_out(config.task.evaluation_text)


def _measure_again(config: CoordinatorConfig, tx: DatabaseView) -> None:
    """Measure versions again if the text changed: the gate compares versions on the same text."""
    text = config.task.evaluation_text
    if text is None:
        return
    sha256 = hashlib.sha256(text.read_bytes()).hexdigest()
    if sha256 == tx.held_out_text():
        return
    tx.save_held_out_text(sha256)
    for record in tx.tasks():
        tx.save_task(msgspec.structs.replace(record, state=without_best(record.state)))
    for task in {config.task.name, *(record.name for record in tx.tasks())}:
        for version in _held(task, tx):
            tx.add_effect(EvaluateVersion(version.version))


def _sweep(database: Database) -> None:
    """Delete optimizer states whose versions were never stored because the process was killed in between."""
    with database.transaction() as tx:
        removed = tx.sweep_states()
    if removed:
        _log.info("states_deleted", states=removed)
