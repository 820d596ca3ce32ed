"""Several tasks: rounds and versions say whose they are. What there was becomes the work of one task without a name.

The configuration, which a migration does not see, has its name; the service gives it to it at its next start.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """One schema version on."""
    op.create_table(
        "tasks",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False, unique=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("settings", sa.LargeBinary, nullable=False),
    )
    with op.batch_alter_table("versions") as batch:
        batch.add_column(sa.Column("task", sa.String(64), nullable=False, server_default=""))
    op.drop_index("versions_by_stage", "versions")
    op.create_index("versions_by_stage", "versions", ["task", "stage", "version"])
    with op.batch_alter_table("rounds") as batch:
        batch.add_column(sa.Column("task", sa.String(64), nullable=False, server_default=""))
    op.create_index("rounds_by_task", "rounds", ["task", "number"])
    _gather()


def _gather() -> None:
    connection = op.get_bind()
    begun_s = connection.scalar(sa.text("SELECT MIN(created_s) FROM versions"))
    pause = connection.scalar(sa.text("SELECT value FROM facts WHERE name = 'pause'"))
    connection.execute(sa.text("DELETE FROM facts WHERE name = 'pause'"))
    if begun_s is None:
        return
    committed = connection.scalar(sa.text("SELECT COUNT(*) FROM rounds WHERE phase = 'committed'"))
    best = connection.execute(
        sa.text("SELECT version, top1 FROM versions WHERE top1 IS NOT NULL ORDER BY top1 DESC, version LIMIT 1")
    ).first()
    newest = connection.scalar(sa.text("SELECT MAX(version) FROM versions"))
    state: dict[str, object] = {
        "name": "",
        "number": 1,
        "created_s": begun_s,
        "status": "active",
        "committed": committed,
        "best_top1": None if best is None else best.top1,
        "since_best": 0 if best is None else newest - best.version,
    }
    if pause is not None:
        state |= {"status": "paused", **json.loads(bytes(pause))}
    connection.execute(
        sa.text("INSERT INTO tasks (name, number, status, state, settings) VALUES ('', 1, :status, :state, :settings)"),
        {"status": state["status"], "state": json.dumps(state).encode(), "settings": b"{}"},
    )


def downgrade() -> None:
    """And back, as long as there is one task: what several have learned does not fit one line."""
    connection = op.get_bind()
    states = [json.loads(bytes(state)) for state in connection.scalars(sa.text("SELECT state FROM tasks"))]
    if len(states) > 1:
        msg = f"the database holds {len(states)} tasks; the version before knows one"
        raise ValueError(msg)
    for state in states:
        if state["status"] == "paused":
            pause = json.dumps({name: state[name] for name in ("reason", "who", "since_s")}).encode()
            connection.execute(sa.text("INSERT INTO facts (name, value) VALUES ('pause', :value)"), {"value": pause})
    op.drop_index("rounds_by_task", "rounds")
    op.drop_index("versions_by_stage", "versions")
    op.create_index("versions_by_stage", "versions", ["stage", "version"])
    # Not by a batch: that would make the tables anew, and others refer to their rows.
    op.execute("ALTER TABLE rounds DROP COLUMN task")
    op.execute("ALTER TABLE versions DROP COLUMN task")
    op.drop_table("tasks")
