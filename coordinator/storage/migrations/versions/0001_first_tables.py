"""The tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "tasks",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False, unique=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("settings", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("task", sa.String(64), nullable=False, server_default=""),
        sa.Column("manifest", sa.String(64), nullable=False),
        sa.Column("round", sa.BigInteger),
        sa.Column("optimizer_state", sa.String(64)),
        sa.Column("clip_norm", sa.Float),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("top1", sa.Float),
        sa.Column("top3", sa.Float),
        sa.Column("loss", sa.Float),
        sa.Column("hits", sa.LargeBinary),
        sa.Column("examples", sa.LargeBinary),
        sa.Column("stage", sa.String(16), nullable=False, server_default="current"),
        sa.Column("reason", sa.String(500), nullable=False, server_default=""),
        sa.Column("since_s", sa.Float, nullable=False, server_default="0"),
        sa.Column("lineage", sa.LargeBinary),
    )
    op.create_index("versions_by_stage", "versions", ["task", "stage", "version"])
    op.create_table(
        "federated",
        sa.Column("version", sa.BigInteger, sa.ForeignKey("versions.version"), primary_key=True, autoincrement=False),
        sa.Column("tally", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "rounds",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("task", sa.String(64), nullable=False, server_default=""),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("base_version", sa.BigInteger, sa.ForeignKey("versions.version"), nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_index("rounds_by_phase", "rounds", ["phase", "number"])
    op.create_index("rounds_by_task", "rounds", ["task", "number"])
    op.create_table(
        "round_summaries",
        sa.Column("number", sa.BigInteger, sa.ForeignKey("rounds.number"), primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "secure_sums",
        sa.Column("round", sa.BigInteger, sa.ForeignKey("rounds.number"), primary_key=True, autoincrement=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
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
        "report_frames",
        sa.Column("round", sa.BigInteger, nullable=False),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
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
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("round", "device", "attempt", "number"),
    )
    op.create_table(
        "optimizer_states",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "devices",
        sa.Column("device", sa.String(64), primary_key=True),
        sa.Column("presence", sa.String(16), nullable=False),
        sa.Column("state", sa.String(500), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("last_seen_s", sa.Float, nullable=False),
        sa.Column("agent_version", sa.String(500), nullable=False),
        sa.Column("runtime", sa.String(500), nullable=False),
        sa.Column("program", sa.String(64)),
        sa.Column("weights", sa.String(64)),
        sa.Column("version", sa.BigInteger),
        sa.Column("examples", sa.BigInteger, nullable=False),
        sa.Column("task_types", sa.String(1100), nullable=False, server_default="keyboard"),
        sa.Column("codecs", sa.String(1100), nullable=False, server_default=""),
        sa.Column("emulated", sa.Boolean, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_round", sa.BigInteger, nullable=False),
        sa.Column("rounds_counted", sa.BigInteger, nullable=False),
        sa.Column("blocked", sa.String(200), nullable=False, server_default=""),
        sa.Column("refusals", sa.Integer, nullable=False, server_default="0"),
        sa.Column("barred_until_s", sa.Float, nullable=False, server_default="0"),
        sa.Column("labels", sa.String(560), nullable=False, server_default=""),
        sa.Column("week", sa.LargeBinary, nullable=False),
        sa.Column("taken_back", sa.String(500), nullable=False, server_default=""),
        sa.Column("agent_round", sa.BigInteger(), nullable=False, server_default="0"),
    )
    op.create_index("devices_by_last_seen", "devices", ["last_seen_s"])
    op.create_index(
        "devices_blocked",
        "devices",
        ["device"],
        sqlite_where=sa.text("blocked <> ''"),
        postgresql_where=sa.text("blocked <> ''"),
    )
    op.create_table(
        "effects",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("begun", sa.Integer, nullable=False, server_default="0"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "facts",
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "leadership",
        sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("host", sa.String(253), nullable=False),
        sa.Column("signing_key", sa.String(64), nullable=False),
    )
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("who", sa.String(64), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("before", sa.String(200), nullable=False),
        sa.Column("after", sa.String(200), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "samples",
        sa.Column("at_s", sa.Float, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "claims",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("prefix", sa.String(64), nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("uses_left", sa.Integer, nullable=False),
        sa.Column("approval", sa.Boolean, nullable=False),
        sa.Column("labels", sa.String(560), nullable=False, server_default=""),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
    )
    op.create_table(
        "credentials",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("claim", sa.String(64), nullable=False),
        sa.Column("standing", sa.String(16), nullable=False),
        sa.Column("csr", sa.String(4096), nullable=False),
        sa.Column("certificate", sa.String(4096), nullable=False),
        sa.Column("serial", sa.String(49), nullable=False),
        sa.Column("authority", sa.String(64), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("requested_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float, nullable=False),
    )
    op.create_index("credentials_by_serial", "credentials", ["serial"])
    op.create_index("credentials_by_device", "credentials", ["device"])
    op.create_index("credentials_by_standing", "credentials", ["standing", "requested_s"])
    op.create_index("credentials_by_claim", "credentials", ["claim"])
