"""A report's name in the private store is no hash of its bytes any more."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """One schema version on."""
    with op.batch_alter_table("reports") as batch:
        batch.alter_column("sha256", new_column_name="blob")


def downgrade() -> None:
    """And back."""
    with op.batch_alter_table("reports") as batch:
        batch.alter_column("blob", new_column_name="sha256")
