"""The worker's tables in the database: report frames and server-optimizer states."""

from __future__ import annotations

import hashlib
from typing import Any

import sqlalchemy as sa

from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.tables import optimizer_states, report_frames, upsert
from nightjar.wire.errors import IntegrityError
from nightjar.wire.identifiers import DeviceId


class PrivateTables:
    """Implements :class:`nightjar.coordinator.ports.PrivateStore`; each call is its own transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def frame(self, round_number: int, device: DeviceId, attempt: int) -> bytes:
        """The frame of a report."""
        c = report_frames.c
        this = sa.and_(c.round == round_number, c.device == device, c.attempt == attempt)
        what = f"the report of {device} in round {round_number}, attempt {attempt}"
        return self._read(sa.select(c.body).where(this), what)

    def state(self, sha256: str) -> bytes:
        """The state of a server optimizer."""
        this = optimizer_states.c.sha256 == sha256
        return self._read(sa.select(optimizer_states.c.body).where(this), f"the state of the optimizer {sha256}")

    def keep_state(self, data: bytes) -> str:
        """Store the state of a server optimizer durably; returns its hash."""
        sha256 = hashlib.sha256(data).hexdigest()
        with self._database.connection() as connection:
            connection.execute(upsert(connection.dialect.name, optimizer_states), {"sha256": sha256, "body": data})
        return sha256

    def _read(self, query: sa.Select[Any], what: str) -> bytes:
        with self._database.connection() as connection:
            body = connection.scalar(query)
        if body is None:
            msg = f"the database lacks {what}"
            raise IntegrityError(msg)
        return bytes(body)
