"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """One schema version on."""
    op.create_table(
        "versions",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("manifest", sa.String(64), nullable=False),
        sa.Column("round", sa.BigInteger),
        sa.Column("optimizer_state", sa.String(64)),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("top1", sa.Float),
        sa.Column("top3", sa.Float),
        sa.Column("loss", sa.Float),
    )
    op.create_table(
        "rounds",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("base_version", sa.BigInteger, sa.ForeignKey("versions.version"), nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_index("rounds_by_phase", "rounds", ["phase"])
    op.create_table(
        "reports",
        sa.Column("round", sa.BigInteger, sa.ForeignKey("rounds.number"), nullable=False),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("num_examples", sa.BigInteger, nullable=False),
        sa.Column("steps", sa.BigInteger, nullable=False),
        sa.Column("loss", sa.Float, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("norm", sa.Float, nullable=False),
        sa.Column("received_s", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("round", "device", "attempt"),
    )
    op.create_table(
        "chunks",
        sa.Column("round", sa.BigInteger, sa.ForeignKey("rounds.number"), nullable=False),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("total_bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("round", "device", "attempt", "number"),
    )
    op.create_table(
        "devices",
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("online", sa.Boolean, nullable=False),
        sa.Column("state", sa.String(500), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("last_seen_s", sa.Float, nullable=False),
        sa.Column("agent_version", sa.String(500), nullable=False),
        sa.Column("runtime", sa.String(500), nullable=False),
        sa.Column("program", sa.String(64)),
        sa.Column("weights", sa.String(64)),
        sa.Column("examples", sa.BigInteger, nullable=False),
        sa.Column("emulated", sa.Boolean, nullable=False),
    )
    op.create_index("devices_by_last_seen", "devices", ["last_seen_s"])
    op.create_table(
        "effects",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """And back."""
    for table in ("counters", "effects", "devices", "chunks", "reports", "rounds", "versions"):
        op.drop_table(table)
