"""Inserting rows, or replacing those that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from coordinator.shell.tables import counters

_INSERTS: dict[str, Callable[[sa.Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def upsert(dialect: str, table: sa.Table, key: str) -> Any:
    """Insert rows, or replace those that are there, or add what is counted; both dialects write it alike."""
    statement = _INSERTS[dialect](table)
    others = {column.name: statement.excluded[column.name] for column in table.columns if column.name != key}
    if table is counters:
        others = {"value": counters.c.value + statement.excluded.value}
    return statement.on_conflict_do_update(index_elements=[key], set_=others)
