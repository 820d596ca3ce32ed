"""Carries out operators' requests. Every change is recorded in the audit log.

An operation comes through the driver's queue like every other event. It shares a transaction with its audit entry, so a
kill leaves both or neither.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.engine.label_service import LabelService
from nightjar.coordinator.engine.release_service import ReleaseService
from nightjar.coordinator.engine.rollout_service import RolloutService
from nightjar.coordinator.engine.round_service import RoundService
from nightjar.coordinator.engine.task_creation import TaskCreator
from nightjar.coordinator.engine.task_service import TaskService
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.effects import AnnounceModel
from nightjar.coordinator.rounds import lease as leases
from nightjar.coordinator.rounds.events import DeviceLost
from nightjar.coordinator.rounds.labelling import labels_of
from nightjar.coordinator.rounds.lease import MOST_LABELS, BlockingChanged, LabelsChanged, Lease, joined
from nightjar.coordinator.tasks.operations import (
    BlockDevice,
    ChangeRelease,
    CreateTask,
    DropLabelRule,
    LabelDevice,
    Operation,
    OperationRefused,
    PauseTask,
    PromoteVersion,
    ResumeTask,
    RollBack,
    SetLabelRule,
    StopTask,
    UnblockDevice,
    change_of,
)
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.coordinator.versions.retention import without_files
from nightjar.coordinator.versions.rollout import Stage, cannot_roll_back
from nightjar.host.configuration import flattened
from nightjar.wire.identifiers import DeviceId


def operate(
    operation: Operation,
    who: str,
    unit: UnitOfWork,
    rounds: RoundService,
    tasks: TaskService,
    maker: TaskCreator,
    rollouts: RolloutService,
    releases: ReleaseService,
    labels: LabelService,
) -> bool | OperationRefused:
    """Carry out an operation and record it in the audit log.

    Returns:
        True if something changed; False if nothing had to change, and then nothing is recorded; OperationRefused if
        the operation is impossible.
    """
    match operation:
        case CreateTask(settings, manifest, signed):
            made = maker.make(settings, manifest, unit)
            if isinstance(made, OperationRefused):
                return made
            if signed is not None:
                unit.tx.keep_signed_program(signed)
            tasks.open_next(made.name, unit)
            unit.audit(who, "create-task", made.name, "", f"{settings.kind.value}, goal {settings.goal}")
            unit.effects.append(AnnounceModel())  # calls back devices that no task wanted
            return True
        case PauseTask() | StopTask() | ResumeTask():
            return _change_task(operation, who, unit, rounds, tasks, maker)
        case BlockDevice(device, reason):
            return _set_blocked(unit, who, rounds, device, reason)
        case UnblockDevice(device):
            return _set_blocked(unit, who, rounds, device, "")
        case LabelDevice():
            return _label(unit, who, operation)
        case SetLabelRule() | DropLabelRule():
            return labels.change(operation, who, unit)
        case PromoteVersion(version, reason):
            return _promote(unit, who, version, reason, rounds, rollouts)
        case RollBack():
            return _roll_back(unit, who, operation, rounds, tasks.first, rollouts)
        case ChangeRelease():
            return releases.change(operation, who, unit)


def told(operation: Operation) -> dict[str, object]:
    """An operation as fields of a log line.

    >>> told(LabelDevice(DeviceId("a"), ("porch", "kitchen"), ()))
    {'operation': 'label-device', 'device': 'a', 'add': 'porch kitchen'}
    """
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(operation).__name__).lower()
    fields: dict[str, object] = {"operation": name}
    for field, value in flattened(msgspec.to_builtins(operation)):
        if field.rpartition(".")[2] != "type" and value not in (None, "", [], ()):
            fields.setdefault(field, " ".join(map(str, value)) if isinstance(value, list | tuple) else value)
    return fields


def _promote(
    unit: UnitOfWork, who: str, number: int, reason: str, rounds: RoundService, rollouts: RolloutService
) -> bool | OperationRefused:
    record = unit.tx.version(number)
    if record is None:
        return OperationRefused(f"there is no version {number}")
    if record.rollout.stage is Stage.CURRENT:
        return False
    if record.pruned_s is not None:
        return OperationRefused(without_files(number))
    rounds.apply(rollouts.promote(record, reason, unit), unit)
    unit.audit(who, "promote-version", str(number), record.rollout.stage.value, f"current: {reason}")
    return True


def _roll_back(
    unit: UnitOfWork, who: str, asked: RollBack, rounds: RoundService, first: str, rollouts: RolloutService
) -> bool | OperationRefused:
    if asked.version is None:
        record = unit.tx.canary_version() or unit.tx.current_version(first)
    else:
        record = unit.tx.version(asked.version)
    if record is None:
        return OperationRefused("there is no such version")
    stage, successor = record.rollout.stage, None
    if stage is Stage.ROLLED_BACK:
        return False
    if stage is Stage.CURRENT:
        named = None if asked.to is None else unit.tx.version(asked.to)
        if named is not None and named.pruned_s is not None:
            return OperationRefused(without_files(named.version))
        successor = rollouts.successor(record, asked.to, unit)
    fault = cannot_roll_back(record.version, stage, named=asked.to is not None, replaceable=successor is not None)
    if fault:
        return OperationRefused(fault)
    rounds.apply(rollouts.withdraw(record, successor, asked.reason, unit), unit)
    instead = "" if successor is None else f"; version {successor.version} instead"
    unit.audit(who, "roll-back", str(record.version), stage.value, f"rolled back: {asked.reason}{instead}")
    return True


_CHANGES = {PauseTask: "pause-task", ResumeTask: "resume-task", StopTask: "stop-task"}


def _change_task(
    operation: PauseTask | StopTask | ResumeTask,
    who: str,
    unit: UnitOfWork,
    rounds: RoundService,
    tasks: TaskService,
    maker: TaskCreator,
) -> bool | OperationRefused:
    name = operation.task
    record = unit.snapshot.tasks.get(name) or unit.tx.task(name)
    if record is None:
        return OperationRefused(f"there is no task {name}")
    forbidden = "" if name == tasks.first else maker.forbids(record.settings)
    event = change_of(operation, record.state, forbidden, who, unit.now_s)
    if event is None or isinstance(event, OperationRefused):
        return event or False
    after = tasks.step(name, event, unit)
    if after.state.status is TaskStatus.ACTIVE:
        if name not in unit.snapshot.rounds:
            tasks.open_next(name, unit)
        unit.effects.append(AnnounceModel())  # calls back devices that were sent away because no task wanted them
    else:
        rounds.call_off(name, f"the task is {after.state.status.value}: {after.state.reason}", unit)
    unit.audit(who, _CHANGES[type(operation)], name, _said(record), _said(after))
    return True


def _said(record: TaskRecord) -> str:
    status, reason = record.state.status.value, record.state.reason
    return f"{status}: {reason}" if reason else status


def _set_blocked(unit: UnitOfWork, who: str, rounds: RoundService, device: DeviceId, reason: str) -> bool:
    lease = unit.tx.lease(device)
    before = "" if lease is None else lease.blocked
    if before == reason:
        return False
    unit.tx.save_lease(leases.step(lease or Lease(device=device), BlockingChanged(reason)))
    if reason:
        for state in unit.snapshot.rounds_of(device):
            rounds.step(state.task, DeviceLost(device, unit.now_s), unit)  # removes it from the pool, or frees its seat
    action = "block-device" if reason else "unblock-device"
    unit.audit(who, action, device, _blocked(before), _blocked(reason))
    return True


def _label(unit: UnitOfWork, who: str, asked: LabelDevice) -> bool | OperationRefused:
    lease = unit.tx.lease(asked.device) or Lease(device=asked.device)
    labelling = unit.tx.labelling()
    ruled = labelling.governed & {*asked.add, *asked.remove}
    if ruled:
        return OperationRefused(f"the label {min(ruled)} is given by a rule; change the rule instead")
    labels = (set(lease.labels.split()) | set(asked.add)) - set(asked.remove) - labelling.governed
    if len(labels) > MOST_LABELS:
        return OperationRefused(f"a device has at most {MOST_LABELS} labels, {asked.device} would have {len(labels)}")
    after = labels_of(replace(lease, labels=joined(labels)), labelling)
    if after == lease.labels:
        return False
    unit.tx.save_lease(leases.step(lease, LabelsChanged(after)))
    unit.audit(who, "label-device", asked.device, lease.labels or "none", after or "none")
    return True


def _blocked(reason: str) -> str:
    return f"blocked: {reason}" if reason else "not blocked"
