"""HTTP API tokens in the database: looked up at each request; creation and revocation write an audit entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coordinator.storage.database import Database
from coordinator.tasks.operations import AuditEntry, TokenRecord


class TokenTable:
    """The tokens of a coordinator.

    Used by the web server and the command line. The driver never touches these tables, except to add its own audit
    entries. Each call is one transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, sha256: str) -> TokenRecord | None:
        """The token with this hash; None if there is none."""
        with self._database.transaction() as tx:
            return tx.token(sha256)

    def all(self) -> list[TokenRecord]:
        """All tokens, sorted by name."""
        with self._database.transaction() as tx:
            return tx.tokens()

    def add(self, record: TokenRecord, who: str) -> bool:
        """Store a token; False, without any change, if a token of that name exists."""
        with self._database.transaction() as tx:
            if any(held.name == record.name for held in tx.tokens()):
                return False
            tx.add_token(record)
            tx.add_audit(_entry(record.created_s, who, "create-token", record.name, "none", record.role))
            return True

    @contextmanager
    def lent(self, record: TokenRecord) -> Iterator[None]:
        """Store a token for the duration of the block; changes made with it are audited, the token itself is not."""
        with self._database.transaction() as tx:
            tx.add_token(record)
        try:
            yield
        finally:
            with self._database.transaction() as tx:
                tx.remove_token(record.name)

    def remove(self, name: str, who: str, now_s: float) -> bool:
        """Revoke a token at once; False if no token has that name."""
        with self._database.transaction() as tx:
            held = [record for record in tx.tokens() if record.name == name]
            if not held:
                return False
            tx.remove_token(name)
            tx.add_audit(_entry(now_s, who, "revoke-token", name, held[0].role, "none"))
            return True


def _entry(at_s: float, who: str, action: str, target: str, before: str, after: str) -> AuditEntry:
    return AuditEntry(at_s=at_s, who=who, action=action, target=target, before=before, after=after)
