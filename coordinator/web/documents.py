"""The documents of the HTTP API: what comes and what goes, checked by their types."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.storage.baselines import Compared
from coordinator.tasks.operations import AuditEntry, Reason
from coordinator.tasks.settings import TaskSettings
from coordinator.web.access import Role
from coordinator.web.rows import DeviceView, RoundRow, VersionRow

Limit = Annotated[int, Meta(ge=1, le=1000)]
Number = Annotated[int, Meta(ge=0, lt=1 << 53)]
TokenName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$(?!\n)")]
Days = Annotated[float, Meta(gt=0, le=3650)]


class Problem(msgspec.Struct, frozen=True):
    """What went wrong (RFC 9457)."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


class Newest(msgspec.Struct, frozen=True):
    """Which part of a list that is read backwards."""

    limit: Limit = 100
    before: Number | None = None


class Following(msgspec.Struct, frozen=True):
    """Which part of a list in ascending order."""

    limit: Limit = 100
    after: Annotated[str, Meta(max_length=64)] = ""


class Rounds(msgspec.Struct, frozen=True):
    """Newest first."""

    items: list[RoundRow]
    next: int | None


class VersionList(msgspec.Struct, frozen=True):
    """Newest first."""

    items: list[VersionRow]
    next: int | None


class BaselineList(msgspec.Struct, frozen=True):
    """What the recall of the first task's versions is compared with; the trigram before the central model."""

    items: list[Compared]


class DeviceList(msgspec.Struct, frozen=True):
    """In ascending order of their names."""

    items: list[DeviceView]
    next: str | None


class AuditLog(msgspec.Struct, frozen=True):
    """Newest first."""

    items: list[AuditEntry]
    next: int | None


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task; ``reason`` is why it is not active and who made it so, or what its round waits for.

    ``version`` is the newest that it made, or that it tries; ``rounds_wanted`` 0 means endless; ``share`` is of the
    devices of its ``experiment``, if it has one.
    """

    name: str
    number: int
    kind: str
    status: str
    reason: str
    created_s: float
    since_s: float
    committed: int
    rounds_wanted: int
    best_top1: float | None
    version: int | None
    round: int | None
    phase: str
    experiment: str
    share: float


class TaskDetail(TaskRow, frozen=True, kw_only=True):
    """A task with all its settings, and its newest rounds, newest first."""

    settings: TaskSettings
    rounds: list[RoundRow]


class Tasks(msgspec.Struct, frozen=True):
    """In the order in which they were made."""

    items: list[TaskRow]


class TaskWanted(TaskSettings, frozen=True, kw_only=True):
    """A task to be made; ``manifest`` names a model that was imported, which a training task is to begin with."""

    manifest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")] | None = None


class Why(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reason of a change, kept in the audit log."""

    reason: Reason


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object."""


class Changed(msgspec.Struct, frozen=True):
    """Whether anything had to be changed."""

    changed: bool


class TokenWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made."""

    name: TokenName
    role: Role
    days: Days = 90.0


class TokenView(msgspec.Struct, frozen=True):
    """A token without its characters; times are seconds since 1970."""

    name: str
    role: str
    created_s: float
    expires_s: float


class Tokens(msgspec.Struct, frozen=True):
    """Every token."""

    items: list[TokenView]


class TokenMade(msgspec.Struct, frozen=True):
    """The only answer that ever holds a token's characters."""

    name: str
    role: str
    token: str
    expires_s: float
