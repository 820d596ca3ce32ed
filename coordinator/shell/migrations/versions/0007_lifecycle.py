"""Where each version is and why, who signed it, what it was made of, and what devices found of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_VERSIONS = sa.table(
    "versions",
    sa.column("version", sa.BigInteger),
    sa.column("stage", sa.String),
    sa.column("reason", sa.String),
    sa.column("optimizer_state", sa.String),
)


def upgrade() -> None:
    """One schema version on. What was the newest version was current, and only its optimizer's state was kept."""
    with op.batch_alter_table("versions") as batch:
        batch.add_column(sa.Column("stage", sa.String(16), nullable=False, server_default="current"))
        batch.add_column(sa.Column("reason", sa.String(500), nullable=False, server_default=""))
        batch.add_column(sa.Column("since_s", sa.Float, nullable=False, server_default="0"))
        batch.add_column(sa.Column("signature", sa.String(128), nullable=False, server_default=""))
        batch.add_column(sa.Column("lineage", sa.LargeBinary))
        batch.add_column(sa.Column("inspection", sa.LargeBinary))
        batch.create_index("versions_by_stage", ["stage", "version"])
    op.create_table(
        "federated",
        sa.Column("version", sa.BigInteger, sa.ForeignKey("versions.version"), primary_key=True, autoincrement=False),
        sa.Column("tally", sa.LargeBinary, nullable=False),
    )
    connection = op.get_bind()
    newest = connection.scalar(sa.select(sa.func.max(_VERSIONS.c.version)))
    if newest is not None:
        older = sa.update(_VERSIONS).where(_VERSIONS.c.version < newest)
        connection.execute(older.values(stage="superseded", reason="by a later version", optimizer_state=None))


def downgrade() -> None:
    """And back."""
    op.drop_table("federated")
    with op.batch_alter_table("versions") as batch:
        batch.drop_index("versions_by_stage")
        for name in ("inspection", "lineage", "signature", "since_s", "reason", "stage"):
            batch.drop_column(name)
