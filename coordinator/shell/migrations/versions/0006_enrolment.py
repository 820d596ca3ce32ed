"""Claims, and the keys that came with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """One schema version on."""
    op.create_table(
        "claims",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("prefix", sa.String(64), nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("uses_left", sa.Integer, nullable=False),
        sa.Column("approval", sa.Boolean, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
    )
    op.create_table(
        "credentials",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("claim", sa.String(64), nullable=False),
        sa.Column("standing", sa.String(16), nullable=False),
        sa.Column("csr", sa.String(4096), nullable=False),
        sa.Column("certificate", sa.String(4096), nullable=False),
        sa.Column("serial", sa.String(49), nullable=False),
        sa.Column("authority", sa.String(64), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("requested_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
    )
    for name in ("serial", "device", "claim"):
        op.create_index(f"credentials_by_{name}", "credentials", [name])
    op.create_index("credentials_by_standing", "credentials", ["standing", "requested_s"])


def downgrade() -> None:
    """And back."""
    op.drop_table("credentials")
    op.drop_table("claims")
