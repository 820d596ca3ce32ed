"""Who may ask for what: tokens with a role each, and what each role may do.

A token is ``nj_`` and 43 random characters; the database holds its sha256 only. It comes as ``Authorization: Bearer``,
or as the password of HTTP Basic, so that a browser can ask for it by itself. A user who may write the database's file
may make tokens (the command line does), because such a person may do everything anyway.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
from dataclasses import dataclass

from werkzeug.datastructures import Authorization

from coordinator.tasks.operations import TokenRecord

PREFIX = "nj_"
_RANDOM_BYTES = 32


class Role(enum.Enum):
    """What a token may do; each role may do what the one before may."""

    VIEWER = "viewer"
    """Look at everything that the pages show."""
    OPERATOR = "operator"
    """Pause the task, block devices."""
    ADMIN = "admin"
    """Make and revoke tokens."""

    def may(self, wanted: Role) -> bool:
        """Whether this role includes another.

        >>> Role.ADMIN.may(Role.VIEWER), Role.VIEWER.may(Role.OPERATOR)
        (True, False)
        """
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(wanted)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: for the audit log.
        role: what is allowed; None for somebody without a token.
    """

    name: str
    role: Role | None


ANYBODY = Caller("", None)
"""Without a token."""


def new_token(name: str, role: Role, now_s: float, lifetime_s: float) -> tuple[str, TokenRecord]:
    """A fresh token: its characters, which are shown once, and what is kept of it."""
    characters = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    record = TokenRecord(
        name=name, role=role.value, sha256=fingerprint(characters), created_s=now_s, expires_s=now_s + lifetime_s
    )
    return characters, record


def fingerprint(characters: str) -> str:
    """What is kept of a token.

    >>> fingerprint("nj_x")[:8]
    'ee72a0cc'
    """
    return hashlib.sha256(characters.encode()).hexdigest()


def presented(authorization: Authorization | None) -> str | None:
    """The token in a request's header; None if there is none."""
    if authorization is None:
        return None
    if authorization.type == "bearer":
        return authorization.token
    return authorization.password if authorization.type == "basic" else None


def caller(record: TokenRecord | None, now_s: float) -> Caller:
    """Who a token stands for; nobody if it is unknown or too old."""
    if record is None or now_s >= record.expires_s:
        return ANYBODY
    return Caller(record.name, Role(record.role))
