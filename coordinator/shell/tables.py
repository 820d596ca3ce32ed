"""The tables. Migrations make them (``shell/migrations``); a test compares both."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
)

METADATA = MetaData()

versions = Table(
    "versions",
    METADATA,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("manifest", String(64), nullable=False),
    Column("round", BigInteger),
    Column("optimizer_state", String(64)),
    Column("created_s", Float, nullable=False),
    Column("top1", Float),
    Column("top3", Float),
    Column("loss", Float),
)

rounds = Table(
    "rounds",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("phase", String(16), nullable=False),
    Column("base_version", BigInteger, ForeignKey("versions.version"), nullable=False),
    Column("state", LargeBinary, nullable=False),  # JSON of coordinator.core.round.Round
    Index("rounds_by_phase", "phase"),
)

reports = Table(
    "reports",
    METADATA,
    Column("round", BigInteger, ForeignKey("rounds.number"), nullable=False),
    Column("device", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("num_examples", BigInteger, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("loss", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("norm", Float, nullable=False),
    Column("received_s", Float, nullable=False),
    PrimaryKeyConstraint("round", "device", "attempt"),
)

chunks = Table(
    "chunks",
    METADATA,
    Column("round", BigInteger, ForeignKey("rounds.number"), nullable=False),
    Column("device", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    PrimaryKeyConstraint("round", "device", "attempt", "number"),
)

devices = Table(
    "devices",
    METADATA,
    Column("device", String(64), primary_key=True),
    Column("presence", String(16), nullable=False),  # coordinator.core.lease.Presence
    Column("state", String(500), nullable=False),
    Column("reason", String(500), nullable=False),
    Column("last_seen_s", Float, nullable=False),
    Column("agent_version", String(500), nullable=False),
    Column("runtime", String(500), nullable=False),
    Column("program", String(64)),
    Column("weights", String(64)),
    Column("examples", BigInteger, nullable=False),
    Column("emulated", Boolean, nullable=False),
    Column("last_round", BigInteger, nullable=False),
    Column("rounds_counted", BigInteger, nullable=False),  # one bit a round
    Column("blocked", String(200), nullable=False, server_default=""),  # why; empty for a device that may take part
    Index("devices_by_last_seen", "last_seen_s"),
)

effects = Table(
    "effects",
    METADATA,
    # SQLite counts up by itself only in a plain INTEGER column.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("body", LargeBinary, nullable=False),  # JSON of coordinator.effects.PendingEffect
    Column("begun", Integer, nullable=False, server_default="0"),  # by how many processes, and still to be done
    sqlite_autoincrement=True,  # numbers are never used again
)

facts = Table(
    "facts",
    METADATA,
    Column("name", String(100), primary_key=True),
    Column("value", LargeBinary, nullable=False),  # JSON, of a type for each name
)

tokens = Table(
    "tokens",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),  # coordinator.operations.Role
    Column("sha256", String(64), nullable=False, unique=True),  # of the token, which nobody keeps
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float, nullable=False),
)

audit = Table(
    "audit",
    METADATA,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at_s", Float, nullable=False),
    Column("who", String(64), nullable=False),
    Column("action", String(32), nullable=False),
    Column("target", String(64), nullable=False),
    Column("before", String(200), nullable=False),
    Column("after", String(200), nullable=False),
    sqlite_autoincrement=True,  # a number that is missing was deleted
)

counters = Table(
    "counters",
    METADATA,
    Column("name", String(100), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
