"""What the pages read: summaries of rounds that are over, samples of the fleet, and indexes to list by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """One schema version on. Rounds that were over before are summed up when somebody looks at them."""
    op.create_table(
        "round_summaries",
        sa.Column("number", sa.BigInteger, sa.ForeignKey("rounds.number"), primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "samples",
        sa.Column("at_s", sa.Float, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.drop_index("rounds_by_phase", "rounds")
    op.create_index("rounds_by_phase", "rounds", ["phase", "number"])
    blocked = sa.text("blocked <> ''")
    op.create_index("devices_blocked", "devices", ["device"], sqlite_where=blocked, postgresql_where=blocked)
    op.execute(
        "INSERT INTO counters (name, value) SELECT 'reports_accepted', count(*) FROM reports HAVING count(*) > 0"
    )


def downgrade() -> None:
    """And back."""
    op.execute("DELETE FROM counters WHERE name = 'reports_accepted'")
    op.drop_index("devices_blocked", "devices")
    op.drop_index("rounds_by_phase", "rounds")
    op.create_index("rounds_by_phase", "rounds", ["phase"])
    op.drop_table("samples")
    op.drop_table("round_summaries")
