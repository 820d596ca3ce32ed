"""What an operator can ask for while the service runs, and what is kept of it. Data only.

:mod:`coordinator.engine.administration` carries it out; who may ask for what is :mod:`coordinator.web.access`'
business.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.tasks.settings import TaskSettings
from wire.identifiers import DeviceId, Sha256

Reason = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)")]
"""One line for the person who asks later why."""


class OperationRefused(msgspec.Struct, frozen=True):
    """An operation that cannot be done, and why; nothing changed."""

    reason: str


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change.

    Attributes:
        number: counts up; given by the database.
        at_s: wall-clock time.
        who: name of the token, or of the user of the command line.
        action: such as block-device.
        target: what was changed.
        before: what it was, in words.
        after: what it is now.
    """

    number: int = 0
    at_s: float
    who: str
    action: str
    target: str
    before: str
    after: str


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A token for the HTTP API as it is kept: by its hash.

    Attributes:
        name: for the audit log.
        role: viewer, operator or admin.
        sha256: of the token's characters; they have 256 random bits, so a slow hash would protect nothing.
        created_s: wall-clock time.
        expires_s: wall-clock time.
    """

    name: str
    role: str
    sha256: str
    created_s: float
    expires_s: float


class CreateTask(msgspec.Struct, frozen=True, tag=True):
    """A task beside those that there are.

    Attributes:
        settings: what it does.
        manifest: of an imported model that a training task begins with; None takes what its settings name.
    """

    settings: TaskSettings
    manifest: Sha256 | None = None


class PauseTask(msgspec.Struct, frozen=True, tag=True):
    """No new rounds; a round that waits for devices is called off, one that is further goes on to its end."""

    task: str
    reason: Reason


class ResumeTask(msgspec.Struct, frozen=True, tag=True):
    """Rounds again."""

    task: str


class StopTask(msgspec.Struct, frozen=True, tag=True):
    """No more rounds, for good; otherwise as a pause."""

    task: str
    reason: Reason


class BlockDevice(msgspec.Struct, frozen=True, tag=True):
    """Keep a device out: it is not selected, and its reports are refused. It need not be known yet."""

    device: DeviceId
    reason: Reason


class UnblockDevice(msgspec.Struct, frozen=True, tag=True):
    """Let it in again."""

    device: DeviceId


class PromoteVersion(msgspec.Struct, frozen=True, tag=True):
    """Give a version to all devices, whatever became of it before."""

    version: int
    reason: Reason


class RollBack(msgspec.Struct, frozen=True, tag=True):
    """Take a version back.

    Attributes:
        reason: kept in the audit log.
        version: which; None takes the canary if there is one, else the current version of the configuration's task.
        to: what devices get instead of a current version; None takes the one before.
    """

    reason: Reason
    version: int | None = None
    to: int | None = None


Operation = CreateTask | PauseTask | ResumeTask | StopTask | BlockDevice | UnblockDevice | PromoteVersion | RollBack
