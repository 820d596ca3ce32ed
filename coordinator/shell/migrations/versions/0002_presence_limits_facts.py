"""Presence and participation of devices, how often effects were begun, and small facts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """One schema version on."""
    with op.batch_alter_table("devices") as batch:
        batch.add_column(sa.Column("presence", sa.String(16), nullable=False, server_default="away"))
        batch.add_column(sa.Column("last_round", sa.BigInteger, nullable=False, server_default="0"))
        batch.add_column(sa.Column("rounds_counted", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE devices SET presence = 'present' WHERE online")
    with op.batch_alter_table("devices") as batch:
        batch.drop_column("online")
        for name in ("presence", "last_round", "rounds_counted"):
            batch.alter_column(name, server_default=None)
    with op.batch_alter_table("effects", table_kwargs={"sqlite_autoincrement": True}) as batch:
        batch.add_column(sa.Column("begun", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "facts",
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """And back."""
    op.drop_table("facts")
    with op.batch_alter_table("effects", table_kwargs={"sqlite_autoincrement": True}) as batch:
        batch.drop_column("begun")
    with op.batch_alter_table("devices") as batch:
        batch.add_column(sa.Column("online", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute("UPDATE devices SET online = (presence <> 'away')")
    with op.batch_alter_table("devices") as batch:
        batch.alter_column("online", server_default=None)
        for name in ("presence", "last_round", "rounds_counted"):
            batch.drop_column(name)
