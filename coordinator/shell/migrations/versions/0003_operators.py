"""What operators do: blocked devices, tokens for the HTTP API, and a log of every change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """One schema version on."""
    with op.batch_alter_table("devices") as batch:
        batch.add_column(sa.Column("blocked", sa.String(200), nullable=False, server_default=""))
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("who", sa.String(64), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("before", sa.String(200), nullable=False),
        sa.Column("after", sa.String(200), nullable=False),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    """And back."""
    op.drop_table("audit")
    op.drop_table("tokens")
    with op.batch_alter_table("devices") as batch:
        batch.drop_column("blocked")
