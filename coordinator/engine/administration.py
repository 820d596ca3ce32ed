"""Carries out what an operator asks for. Each change stands in the audit log, or did not take place.

An operation comes through the driver's queue like everything else, so it is one transaction with its audit entry, and a
kill leaves both or neither.
"""

from __future__ import annotations

from coordinator.engine.rollout_service import Releases
from coordinator.engine.task_creation import Maker
from coordinator.engine.unit_of_work import Turn
from coordinator.ports import TaskRecord
from coordinator.rounds import lease as leases
from coordinator.rounds.events import DeviceLost
from coordinator.rounds.lease import BlockingChanged, Lease
from coordinator.tasks import task as tasks
from coordinator.tasks.operations import (
    AuditEntry,
    BlockDevice,
    CreateTask,
    Operation,
    PauseTask,
    PromoteVersion,
    Refused,
    ResumeTask,
    RollBack,
    StopTask,
    UnblockDevice,
)
from coordinator.tasks.task import Status
from coordinator.versions.rollout import Stage
from wire.identifiers import DeviceId


def operate(operation: Operation, who: str, turn: Turn, maker: Maker, releases: Releases) -> bool | Refused:
    """Carry an operation out, and note it in the audit log.

    Args:
        operation: what is asked.
        who: asks.
        turn: of the driver.
        maker: makes tasks.
        releases: moves versions.

    Returns:
        False if everything was so already; then nothing is noted. Refused if it cannot be done.
    """
    match operation:
        case CreateTask(settings, manifest):
            made = maker.make(settings, manifest, turn)
            if isinstance(made, Refused):
                return made
            _note(turn, who, "create-task", made.name, "", f"{settings.kind.value}, goal {settings.goal}")
            return True
        case PauseTask(task, reason):
            return _change_task(turn, who, task, "pause-task", Status.PAUSED, reason)
        case StopTask(task, reason):
            return _change_task(turn, who, task, "stop-task", Status.STOPPED, reason)
        case ResumeTask(task):
            held = turn.board.tasks.get(task) or turn.tx.task(task)
            forbidden = "" if held is None or task == turn.first else maker.forbids(held.settings)
            if forbidden:
                return Refused(f"[limits] of the configuration do not allow the task {task}: {forbidden}")
            return _change_task(turn, who, task, "resume-task", Status.ACTIVE, "")
        case BlockDevice(device, reason):
            return _set_blocked(turn, who, device, reason)
        case UnblockDevice(device):
            return _set_blocked(turn, who, device, "")
        case PromoteVersion(version, reason):
            return _promote(turn, who, version, reason, releases)
        case RollBack():
            return _roll_back(turn, who, operation, releases)


def _promote(turn: Turn, who: str, number: int, reason: str, releases: Releases) -> bool | Refused:
    record = turn.tx.version(number)
    if record is None:
        return Refused(f"there is no version {number}")
    if record.rollout.stage is Stage.CURRENT:
        return False
    releases.promote(record, reason, turn)
    _note(turn, who, "promote-version", str(number), record.rollout.stage.value, f"current: {reason}")
    return True


def _roll_back(turn: Turn, who: str, asked: RollBack, releases: Releases) -> bool | Refused:
    if asked.version is None:
        record = turn.tx.canary_version() or turn.tx.current_version(turn.first)
    else:
        record = turn.tx.version(asked.version)
    if record is None:
        return Refused("there is no such version")
    stage = record.rollout.stage
    if stage is Stage.ROLLED_BACK:
        return False
    if stage not in {Stage.CANARY, Stage.CURRENT}:
        return Refused(f"version {record.version} is {stage.value}; only a canary or a current one can be taken back")
    successor = None
    if stage is Stage.CURRENT:
        successor = releases.before(record, turn) if asked.to is None else turn.tx.version(asked.to)
        if successor is None or successor.version == record.version or successor.task != record.task:
            return Refused(f"there is no version that devices could get instead of {record.version}; give another")
    elif asked.to is not None:
        return Refused(f"version {record.version} is a canary: its devices go back to the current version")
    releases.withdraw(record, successor, asked.reason, turn)
    instead = "" if successor is None else f"; version {successor.version} instead"
    _note(turn, who, "roll-back", str(record.version), stage.value, f"rolled back: {asked.reason}{instead}")
    return True


def _change_task(turn: Turn, who: str, name: str, action: str, wanted: Status, reason: str) -> bool | Refused:
    record = turn.board.tasks.get(name) or turn.tx.task(name)
    if record is None:
        return Refused(f"there is no task {name}")
    before = record.state
    if before.status is wanted:
        return False
    if before.status in tasks.OVER:
        return Refused(f"the task {name} is {before.status.value}: {before.reason}; make a new one")
    match wanted:
        case Status.PAUSED:
            event: tasks.Event = tasks.Paused(turn.now_s, reason, who)
        case Status.STOPPED:
            event = tasks.Stopped(turn.now_s, reason, who)
        case _:
            event = tasks.Resumed(turn.now_s)
    after = turn.step_task(name, event)
    if wanted is Status.ACTIVE:
        if name not in turn.board.rounds:
            turn.open_next(name)
    else:
        turn.call_off(name, f"the task is {wanted.value}: {reason}")
    _note(turn, who, action, name, _said(record), _said(after))
    return True


def _said(record: TaskRecord) -> str:
    status, reason = record.state.status.value, record.state.reason
    return f"{status}: {reason}" if reason else status


def _set_blocked(turn: Turn, who: str, device: DeviceId, reason: str) -> bool:
    lease = turn.tx.lease(device)
    before = "" if lease is None else lease.blocked
    if before == reason:
        return False
    turn.tx.save_lease(leases.step(lease or Lease(device=device), BlockingChanged(reason)))
    if reason:
        for state in turn.board.rounds_of(device):
            turn.step(state.task, DeviceLost(device, turn.now_s))  # leaves the pool; a seat becomes free
    action = "block-device" if reason else "unblock-device"
    _note(turn, who, action, device, _blocked(before), _blocked(reason))
    return True


def _blocked(reason: str) -> str:
    return f"blocked: {reason}" if reason else "not blocked"


def _note(turn: Turn, who: str, action: str, target: str, before: str, after: str) -> None:
    turn.tx.add_audit(
        AuditEntry(at_s=turn.now_s, who=who, action=action, target=target, before=before[:200], after=after[:200])
    )
