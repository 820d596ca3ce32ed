"""HTTP API tokens in the database: looked up at each request; creation and revocation write an audit entry."""

from __future__ import annotations

import sqlalchemy as sa
from msgspec import structs

from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.tables import note, tokens, upsert
from nightjar.coordinator.tasks.operations import TokenRecord


class TokenTable:
    """The tokens of a coordinator.

    Used by the web server and the command line. The driver never touches these tables, except to add its own audit
    entries. Each call is one transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, sha256: str) -> TokenRecord | None:
        """The token with this hash; None if there is none."""
        with self._database.connection() as tx:
            row = tx.execute(sa.select(tokens).where(tokens.c.sha256 == sha256)).mappings().first()
        return None if row is None else TokenRecord(**row)

    def all(self) -> list[TokenRecord]:
        """All tokens, sorted by name."""
        with self._database.connection() as tx:
            return [TokenRecord(**row) for row in tx.execute(sa.select(tokens).order_by(tokens.c.name)).mappings()]

    def add(self, record: TokenRecord, who: str) -> bool:
        """Store a token; False, without any change, if a token of that name exists."""
        with self._database.connection() as tx:
            if _role(tx, record.name) is not None:
                return False
            _save(tx, record)
            note(tx, record.created_s, who, "create-token", record.name, "none", record.role)
            return True

    def remove(self, name: str, who: str, now_s: float) -> bool:
        """Revoke a token at once; False if no token has that name."""
        with self._database.connection() as tx:
            role = _role(tx, name)
            if role is None:
                return False
            tx.execute(sa.delete(tokens).where(tokens.c.name == name))
            note(tx, now_s, who, "revoke-token", name, role, "none")
            return True


def _role(tx: sa.Connection, name: str) -> str | None:
    role: str | None = tx.scalar(sa.select(tokens.c.role).where(tokens.c.name == name))
    return role


def _save(tx: sa.Connection, record: TokenRecord) -> None:
    tx.execute(upsert(tx.dialect.name, tokens), structs.asdict(record))
