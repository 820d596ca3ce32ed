"""The version of the model that each device holds, as it reports it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column."""
    op.add_column("devices", sa.Column("version", sa.BigInteger))
