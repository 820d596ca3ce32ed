"""The worker's tables in the database: report frames and server-optimizer states."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

from coordinator.storage.database import Database
from coordinator.storage.tables import optimizer_states, report_frames, upsert
from wire.errors import IntegrityError
from wire.identifiers import DeviceId

_FRAME = sa.select(report_frames.c.body).where(
    report_frames.c.round == sa.bindparam("of_round"),
    report_frames.c.device == sa.bindparam("of_device"),
    report_frames.c.attempt == sa.bindparam("of_attempt"),
)


class PrivateTables:
    """Implements :class:`coordinator.ports.PrivateStore`; each call is its own transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def frame(self, round_number: int, device: DeviceId, attempt: int) -> bytes:
        """The frame of a report."""
        with self._database.connection() as connection:
            body = connection.scalar(_FRAME, {"of_round": round_number, "of_device": device, "of_attempt": attempt})
        if body is None:
            msg = f"the database lacks the report of {device} in round {round_number}, attempt {attempt}"
            raise IntegrityError(msg)
        return bytes(body)

    def state(self, sha256: str) -> bytes:
        """The state of a server optimizer."""
        with self._database.connection() as connection:
            which = optimizer_states.c.sha256 == sha256
            body = connection.scalar(sa.select(optimizer_states.c.body).where(which))
        if body is None:
            msg = f"the database lacks the state of the optimizer {sha256}"
            raise IntegrityError(msg)
        return bytes(body)

    def keep_state(self, data: bytes) -> str:
        """Store the state of a server optimizer durably; returns its hash."""
        sha256 = hashlib.sha256(data).hexdigest()
        with self._database.connection() as connection:
            connection.execute(upsert(connection.dialect.name, optimizer_states), {"sha256": sha256, "body": data})
        return sha256
