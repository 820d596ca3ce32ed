"""Carries out what an operator asks for. Each change stands in the audit log, or did not take place.

An operation comes through the driver's queue like everything else, so it is one transaction with its audit entry, and a
kill leaves both or neither.
"""

from __future__ import annotations

from coordinator.core import lease as leases
from coordinator.core.events import CalledOff, DeviceLost
from coordinator.core.lease import BlockingChanged, Lease
from coordinator.core.round import TERMINAL
from coordinator.operations import AuditEntry, BlockDevice, Operation, Pause, PauseTask, ResumeTask, UnblockDevice
from coordinator.turn import Turn
from wire.identifiers import DeviceId


def operate(operation: Operation, who: str, task: str, turn: Turn) -> bool:
    """Carry an operation out, and note it in the audit log.

    Args:
        operation: what is asked.
        who: asks.
        task: name of the task.
        turn: of the driver.

    Returns:
        False if everything was so already; then nothing is noted.
    """
    match operation:
        case PauseTask(reason):
            before = turn.tx.pause()
            if before is not None:
                return False
            turn.tx.save_pause(Pause(reason=reason, who=who, since_s=turn.now_s))
            if turn.round is not None:
                turn.step(CalledOff(f"the task is paused: {reason}", turn.now_s))
            _note(turn, who, "pause-task", task, "running", f"paused: {reason}")
        case ResumeTask():
            before = turn.tx.pause()
            if before is None:
                return False
            turn.tx.save_pause(None)
            if turn.round is None:
                turn.open_next()
            _note(turn, who, "resume-task", task, f"paused: {before.reason}", "running")
        case BlockDevice(device, reason):
            return _set_blocked(turn, who, device, reason)
        case UnblockDevice(device):
            return _set_blocked(turn, who, device, "")
    return True


def _set_blocked(turn: Turn, who: str, device: DeviceId, reason: str) -> bool:
    lease = turn.tx.lease(device)
    before = "" if lease is None else lease.blocked
    if before == reason:
        return False
    turn.tx.save_lease(leases.step(lease or Lease(device=device), BlockingChanged(reason)))
    if reason and turn.round is not None and turn.round.phase not in TERMINAL:
        turn.step(DeviceLost(device, turn.now_s))  # leaves the pool; a seat becomes free for somebody else
    action = "block-device" if reason else "unblock-device"
    _note(turn, who, action, device, _blocked(before), _blocked(reason))
    return True


def _blocked(reason: str) -> str:
    return f"blocked: {reason}" if reason else "not blocked"


def _note(turn: Turn, who: str, action: str, target: str, before: str, after: str) -> None:
    turn.tx.add_audit(
        AuditEntry(at_s=turn.now_s, who=who, action=action, target=target, before=before[:200], after=after[:200])
    )
