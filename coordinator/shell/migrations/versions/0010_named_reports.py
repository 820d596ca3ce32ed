"""A report's name in the private store is no hash of its bytes any more."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """One schema version on."""
    op.execute("ALTER TABLE reports RENAME COLUMN sha256 TO blob")  # a batch would copy every report's row


def downgrade() -> None:
    """And back."""
    op.execute("ALTER TABLE reports RENAME COLUMN blob TO sha256")
