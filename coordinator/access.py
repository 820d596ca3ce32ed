"""Access control: tokens, their roles, and what each role may do.

A token is ``nj_`` and 43 random characters; the database holds only its sha256. It comes as ``Authorization: Bearer``,
or as the password of HTTP Basic, so that a browser can prompt for it. A user who may write the database file may create
tokens (the command line does so), because such a user can do everything anyway.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from nightjar.coordinator.tasks.operations import TokenRecord

PREFIX = "nj_"
TokenName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$(?!\n)",
        description="1 to 64 letters, digits, '_', '.', '@', '-', of which the first is a letter or digit",
    ),
]
"""Name of a token or a claim."""
TokenDays = Annotated[float, Meta(gt=0, le=3650)]
_RANDOM_BYTES = 32


class Role(enum.Enum):
    """What a token may do; each role includes the ones before it."""

    VIEWER = "viewer"
    """May see everything that the pages show."""
    OPERATOR = "operator"
    """May pause the task and block devices."""
    ADMIN = "admin"
    """May create and revoke tokens."""

    def may(self, wanted: Role) -> bool:
        """Whether this role includes another.

        >>> Role.ADMIN.may(Role.VIEWER), Role.VIEWER.may(Role.OPERATOR)
        (True, False)
        """
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(wanted)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request."""

    name: str  # for the audit log
    role: Role | None  # what the caller may do; None without a token


ANYBODY = Caller("", None)
"""A caller without a valid token."""


def new_token(name: str, role: Role, now_s: float, lifetime_s: float) -> tuple[str, TokenRecord]:
    """A fresh token: its secret text, which is shown once, and the record to store."""
    characters = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    record = TokenRecord(
        name=name, role=role.value, sha256=fingerprint(characters), created_s=now_s, expires_s=now_s + lifetime_s
    )
    return characters, record


def fingerprint(characters: str) -> str:
    """sha256 of a token's secret text, as hex; only this hash is stored.

    >>> fingerprint("nj_x")[:8]
    'ee72a0cc'
    """
    return hashlib.sha256(characters.encode()).hexdigest()


def caller(record: TokenRecord | None, now_s: float) -> Caller:
    """The caller that a token stands for; :data:`ANYBODY` if it is unknown or expired."""
    if record is None or now_s >= record.expires_s:
        return ANYBODY
    return Caller(record.name, Role(record.role))
