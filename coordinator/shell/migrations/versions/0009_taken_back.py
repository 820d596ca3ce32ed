"""Which release of the agent did not work on a device, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """One schema version on."""
    with op.batch_alter_table("devices") as batch:
        batch.add_column(sa.Column("taken_back", sa.String(500), nullable=False, server_default=""))


def downgrade() -> None:
    """And back."""
    with op.batch_alter_table("devices") as batch:
        batch.drop_column("taken_back")
