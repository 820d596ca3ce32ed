"""Which devices' reports were read together, on which weights."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "counted_cohorts",
        sa.Column("round", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("base_version", sa.BigInteger, nullable=False),
        sa.Column("weights", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("devices", sa.LargeBinary, nullable=False),
        sa.Index("cohorts_by_weights", "weights", "kind"),
    )
