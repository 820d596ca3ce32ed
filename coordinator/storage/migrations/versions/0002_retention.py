"""What retention needs to know: versions promoted by hand, versions without files, and the age of artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; versions that the audit log names as promoted are marked."""
    op.add_column("versions", sa.Column("by_hand", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("versions", sa.Column("pruned_s", sa.Float))
    op.add_column("artifacts", sa.Column("stored_s", sa.Float, nullable=False, server_default="0"))
    audit, versions = (
        sa.table("audit", sa.column("action"), sa.column("target")),
        sa.table("versions", sa.column("version"), sa.column("by_hand")),
    )
    targets = op.get_bind().scalars(sa.select(audit.c.target).where(audit.c.action == "promote-version"))
    promoted = [int(target) for target in targets if target.isdecimal()]
    for number in promoted:
        op.execute(sa.update(versions).where(versions.c.version == number).values(by_hand=sa.true()))
