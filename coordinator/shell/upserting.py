"""Writing many rows at once: inserting them, replacing those that are there, changing some columns.

Past SQLAlchemy's handling of parameters, which takes longer for a row than all else that happens to a report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
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


class ManyRows:
    """Statements as the driver below SQLAlchemy takes them, compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str], tuple[str, Sequence[str] | None]] = {}

    def add(self, connection: sa.Connection, table: sa.Table, records: Sequence[msgspec.Struct]) -> None:
        """Insert records whose attributes are the table's columns."""
        statement, order = self._find(connection, ("add", table.name), lambda: sa.insert(table), table.columns.keys())
        values = list(map(msgspec.structs.asdict if order is None else attrgetter(*order), records))
        connection.exec_driver_sql(statement, values)

    def put(self, connection: sa.Connection, table: sa.Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows; those of the same key are replaced (those of a counter added)."""
        statement, order = self._find(
            connection,
            ("put", table.name),
            lambda: upsert(connection.dialect.name, table, key),
            table.columns.keys(),
        )
        connection.exec_driver_sql(statement, _in_order(rows, order))

    def change(
        self,
        connection: sa.Connection,
        table: sa.Table,
        key: str,
        names: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        """Change the columns ``names``, always the same ones of a table, in the rows of these keys."""
        statement, order = self._find(
            connection,
            ("change", table.name),
            lambda: sa.update(table).where(table.c[key] == sa.bindparam(key)),
            names,
        )
        connection.exec_driver_sql(statement, _in_order(rows, order))

    def _find(
        self, connection: sa.Connection, name: tuple[str, str], build: Callable[[], Any], columns: Sequence[str]
    ) -> tuple[str, Sequence[str] | None]:
        """A statement, and the order of its values; None if they have names."""
        if name not in self._compiled:
            compiled = build().compile(dialect=connection.dialect, column_keys=columns)
            self._compiled[name] = str(compiled), compiled.positiontup
        return self._compiled[name]


def _in_order(rows: Sequence[Mapping[str, Any]], order: Sequence[str] | None) -> Sequence[Any]:
    return rows if order is None else list(map(itemgetter(*order), rows))
