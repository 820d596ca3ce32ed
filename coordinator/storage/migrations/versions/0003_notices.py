"""What a device says of itself though it goes on, such as a damaged file that it put away."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("devices", sa.Column("notice", sa.String(500), nullable=False, server_default=""))
