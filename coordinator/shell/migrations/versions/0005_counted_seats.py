"""What rounds of the first release lack: their seats counted, and why they were abandoned as a cause."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_ROUNDS = sa.table("rounds", sa.column("number", sa.BigInteger), sa.column("state", sa.LargeBinary))
_COUNTERS = sa.table("counters", sa.column("name", sa.String), sa.column("value", sa.BigInteger))


def upgrade() -> None:
    """One schema version on. Later releases wrote these fields, and their rounds are left as they are."""
    connection = op.get_bind()
    found = connection.execute(sa.select(_ROUNDS.c.number, _ROUNDS.c.state)).all()
    for number, stored in found:
        state = json.loads(stored)
        if "reported" in state:
            continue
        seats = [seat["state"] for seat in state["seats"].values()]
        state["working"], state["reported"] = seats.count("working"), seats.count("reported")
        if state["phase"] == "abandoned":
            state["cause"] = _cause(state["reason"])
            _count(connection, f"rounds_abandoned:{state['cause']}")
        body = json.dumps(state, separators=(",", ":")).encode()
        connection.execute(sa.update(_ROUNDS).where(_ROUNDS.c.number == number).values(state=body))


def downgrade() -> None:
    """And back: the former release ignores what it does not know."""


def _cause(reason: str) -> str:
    """That release knew three reasons, by these words."""
    if reason.startswith("waiting:"):
        return "too-few-devices"
    return "too-few-reports" if reason.endswith("needed reports came") else "averaging-failed"


def _count(connection: sa.Connection, name: str) -> None:
    which = _COUNTERS.c.name == name
    if not connection.execute(sa.update(_COUNTERS).where(which).values(value=_COUNTERS.c.value + 1)).rowcount:
        connection.execute(sa.insert(_COUNTERS).values(name=name, value=1))
