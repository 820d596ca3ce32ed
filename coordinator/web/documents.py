"""Request and response documents of the HTTP API, validated by their types."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.coordinator.access import Role, TokenDays, TokenName
from nightjar.coordinator.rounds.labelling import LabelRule
from nightjar.coordinator.rounds.lease import Label
from nightjar.coordinator.storage.baselines import Compared
from nightjar.coordinator.tasks.operations import AuditEntry, Reason
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.views.rows import DeviceView, RoundRow, VersionRow
from nightjar.coordinator.views.tasks import TaskDetail, TaskRow
from nightjar.models.signed_programs import SignedProgram

Limit = Annotated[int, Meta(ge=1, le=1000)]
Number = Annotated[int, Meta(ge=0, lt=1 << 53)]


class Problem(msgspec.Struct, frozen=True):
    """A problem document (RFC 9457); ``code`` is ``revoked`` or ``blocked`` where a device is refused, else empty."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    code: str = ""


class Before(msgspec.Struct, frozen=True):
    """Where a list that starts with the newest goes on."""

    before: Number | None = None


class Newest(Before, frozen=True):
    """Which part of a list that starts with the newest."""

    limit: Limit = 100


class DevicesAsked(msgspec.Struct, frozen=True):
    """Which part of the list of devices, in ascending order."""

    limit: Limit = 100
    after: Annotated[str, Meta(max_length=64)] = ""
    label: Annotated[str, Meta(max_length=32)] = ""


class Rounds(msgspec.Struct, frozen=True):
    """Rounds, newest first."""

    items: list[RoundRow]
    next: int | None


class VersionList(msgspec.Struct, frozen=True):
    """Versions, newest first."""

    items: list[VersionRow]
    next: int | None


class BaselineList(msgspec.Struct, frozen=True):
    """Baselines for the figures of the first task's versions; the trigram before the central model."""

    items: list[Compared]


class DeviceList(msgspec.Struct, frozen=True):
    """Devices, sorted by name."""

    items: list[DeviceView]
    next: str | None


class AuditLog(msgspec.Struct, frozen=True):
    """Audit entries, newest first."""

    items: list[AuditEntry]
    next: int | None


class Tasks(msgspec.Struct, frozen=True):
    """Tasks, in order of creation."""

    items: list[TaskRow]


class TaskWanted(TaskSettings, frozen=True, kw_only=True):
    """A task to create.

    ``manifest`` is the hash of an imported model that a training task starts from, and ``signed`` has the signatures of
    its program by the owner of the devices, if they need some.
    """

    manifest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="64 hexadecimal digits")] | None = None
    signed: SignedProgram | None = None


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reason for a change, for the audit log."""

    reason: Reason


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object."""


class LabelsWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels to give to a device, and labels to take away."""

    add: tuple[Label, ...] = ()
    remove: tuple[Label, ...] = ()


class LabelRules(msgspec.Struct, frozen=True):
    """The rules for labels, sorted by label; ``applied`` is whether all devices have the labels by the present ones."""

    items: list[LabelRule]
    applied: bool


class Changed(msgspec.Struct, frozen=True):
    """Whether the request changed anything."""

    changed: bool


class TaskCreated(Changed, frozen=True):
    """A new task, and how many known devices may serve it, counted up to its minimum."""

    task: TaskDetail
    known_devices: int


class TokenWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to create."""

    name: TokenName
    role: Role
    days: TokenDays = 90.0


class TokenView(msgspec.Struct, frozen=True):
    """A token without its secret text; times are seconds since 1970."""

    name: str
    role: str
    created_s: float
    expires_s: float


class Tokens(msgspec.Struct, frozen=True):
    """All tokens."""

    items: list[TokenView]


class TokenMade(msgspec.Struct, frozen=True):
    """A new token; the only answer that ever holds its secret text."""

    name: str
    role: str
    token: str
    expires_s: float
