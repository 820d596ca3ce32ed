"""The operations that an operator can request while the service runs, and their audit records. Pure.

:mod:`nightjar.coordinator.engine.administration` carries them out; :mod:`nightjar.coordinator.access` decides who
may request what.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.coordinator.rounds.labelling import LabelRule
from nightjar.coordinator.rounds.lease import Label
from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import OVER, Task, TaskStatus
from nightjar.models.signed_programs import SignedProgram
from nightjar.wire.identifiers import DeviceId, Sha256

Reason = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)", description="a reason in one line")
]
"""Why an operator did it: one line, kept for later readers."""


class OperationRefused(msgspec.Struct, frozen=True):
    """The reason why an operation cannot be done; nothing was changed."""

    reason: str


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change in the audit log.

    Attributes:
        number: sequence number, assigned by the database.
        who: name of the token, or of the user of the command line.
        action: name of the action, such as block-device.
        before: state before the change, in words.
        after: state after the change, in words.
    """

    number: int = 0
    at_s: float
    who: str
    action: str
    target: str
    before: str = ""
    after: str = ""


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token for the HTTP API; only its hash is kept.

    Attributes:
        name: name of the token, for the audit log.
        role: viewer, operator or admin.
        sha256: SHA-256 of the token's characters; they have 256 random bits, so a slow hash would add no protection.
    """

    name: str
    role: str
    sha256: str
    created_s: float
    expires_s: float


class CreateTask(msgspec.Struct, frozen=True, tag=True):
    """Create a further task.

    Attributes:
        manifest: hash of the manifest of an imported model to start training from; None uses ``settings.source``.
        signed: the owner's signatures of its program, if it came with some.
    """

    settings: TaskSettings
    manifest: Sha256 | None = None
    signed: SignedProgram | None = None


class PauseTask(msgspec.Struct, frozen=True, tag=True):
    """Open no new rounds for now; a round in SELECTION is called off, one that has started runs to its end."""

    task: str
    reason: Reason


class ResumeTask(msgspec.Struct, frozen=True, tag=True):
    """Open rounds again."""

    task: str


class StopTask(msgspec.Struct, frozen=True, tag=True):
    """Open no more rounds, for good; a round in SELECTION is called off, one that has started runs to its end."""

    task: str
    reason: Reason


class BlockDevice(msgspec.Struct, frozen=True, tag=True):
    """Block a device: it is not selected, and its reports are refused. The device need not be known yet."""

    device: DeviceId
    reason: Reason


class UnblockDevice(msgspec.Struct, frozen=True, tag=True):
    """Unblock a device."""

    device: DeviceId


class LabelDevice(msgspec.Struct, frozen=True, tag=True):
    """Give labels to a device, and take others away. The device need not be known yet."""

    device: DeviceId
    add: tuple[Label, ...] = ()
    remove: tuple[Label, ...] = ()


class SetLabelRule(msgspec.Struct, frozen=True, tag=True):
    """Give devices a label by a rule from now on, in place of the rule that there is for this label."""

    rule: LabelRule


class DropLabelRule(msgspec.Struct, frozen=True, tag=True):
    """Take a rule away, and its label from all devices."""

    label: Label


class PromoteVersion(msgspec.Struct, frozen=True, tag=True):
    """Release a version to all devices, whatever its stage."""

    version: int
    reason: Reason


class RollBack(msgspec.Struct, frozen=True, tag=True):
    """Roll back a version.

    Attributes:
        version: version to roll back; None takes the canary if any, else the current version of the first task.
        to: version that replaces a current version; None takes the previously current one.
    """

    reason: Reason
    version: int | None = None
    to: int | None = None


class ReleaseAction(enum.Enum):
    """What to do with a release: offer it to a share of the devices, to no further one, to all, or take it back."""

    START = "start"
    PAUSE = "pause"
    PROMOTE = "promote"
    ROLLBACK = "rollback"


class ChangeRelease(msgspec.Struct, frozen=True, tag=True):
    """Change who gets a release of the agent.

    Attributes:
        reason: kept in the audit log; devices see that of a rollback.
        share: share of the devices that START offers it to.
        labels: all of which these devices have; None for those of an earlier START.
    """

    version: str
    action: ReleaseAction
    reason: Reason
    share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    labels: tuple[Label, ...] | None = None


Operation = (
    CreateTask
    | PauseTask
    | ResumeTask
    | StopTask
    | BlockDevice
    | UnblockDevice
    | LabelDevice
    | SetLabelRule
    | DropLabelRule
    | PromoteVersion
    | RollBack
    | ChangeRelease
)


def change_of(
    operation: PauseTask | ResumeTask | StopTask, task: Task, forbidden: str, who: str, now_s: float
) -> tasks.Event | OperationRefused | None:
    """The event that an operation is for its task; None if nothing has to change.

    ``forbidden`` says why ``[limits]`` forbids the task to open rounds; empty if it does not.
    """
    event: tasks.Event
    match operation:
        case PauseTask():
            wanted, event = TaskStatus.PAUSED, tasks.Paused(now_s, operation.reason, who)
        case StopTask():
            wanted, event = TaskStatus.STOPPED, tasks.TaskStopped(now_s, operation.reason, who)
        case ResumeTask():
            wanted, event = TaskStatus.ACTIVE, tasks.Resumed(now_s)
    if task.status is wanted:
        return None
    if task.status in OVER:
        return OperationRefused(f"the task {task.name} is {task.status.value}: {task.reason}; make a new one")
    if wanted is TaskStatus.ACTIVE and forbidden:
        return OperationRefused(f"[limits] of the configuration do not allow the task {task.name}: {forbidden}")
    return event
