"""The database tables. Migrations create them (``storage/migrations``); a test compares both."""

from __future__ import annotations

import functools
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    false,
    insert,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

METADATA = MetaData()

tasks = Table(
    "tasks",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("number", BigInteger, nullable=False, unique=True),  # in order of creation
    Column("status", String(16), nullable=False),  # coordinator.tasks.task.TaskStatus
    Column("state", LargeBinary, nullable=False),  # JSON of coordinator.tasks.task.Task
    Column("settings", LargeBinary, nullable=False),  # JSON of coordinator.tasks.settings.TaskSettings
)

versions = Table(
    "versions",
    METADATA,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("task", String(64), nullable=False, server_default=""),
    Column("manifest", String(64), nullable=False),
    Column("round", BigInteger),
    Column("optimizer_state", String(64)),
    Column("clip_norm", Float),
    Column("created_s", Float, nullable=False),
    Column("top1", Float),
    Column("top3", Float),
    Column("loss", Float),
    Column("hits", LargeBinary),  # which held-out words were predicted
    Column("examples", LargeBinary),  # JSON of tuple[coordinator.records.jobs.Example, ...]
    Column("stage", String(16), nullable=False, server_default="current"),  # coordinator.versions.rollout.Stage
    Column("reason", String(500), nullable=False, server_default=""),
    Column("since_s", Float, nullable=False, server_default="0"),
    Column("lineage", LargeBinary),  # JSON of coordinator.records.versions.Lineage
    Column("by_hand", Boolean, nullable=False, server_default=false()),  # an operator promoted it
    Column("pruned_s", Float),  # when its files were deleted; null while they are there
    Index("versions_by_stage", "task", "stage", "version"),
)

federated = Table(
    "federated",
    METADATA,
    Column("version", BigInteger, ForeignKey("versions.version"), primary_key=True, autoincrement=False),
    Column("tally", LargeBinary, nullable=False),  # JSON of coordinator.learning.device_metrics.Tally
)

rounds = Table(
    "rounds",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("task", String(64), nullable=False, server_default=""),
    Column("phase", String(16), nullable=False),
    Column("base_version", BigInteger, ForeignKey("versions.version"), nullable=False),
    Column("state", LargeBinary, nullable=False),  # JSON of coordinator.rounds.round.Round
    Index("rounds_by_phase", "phase", "number"),
    Index("rounds_by_task", "task", "number"),
)

counted_cohorts = Table(
    "counted_cohorts",
    METADATA,
    Column("round", BigInteger, primary_key=True, autoincrement=False),
    Column("base_version", BigInteger, nullable=False),
    Column("weights", String(64), nullable=False),  # hash of the base version's weights
    Column("kind", String(16), nullable=False),
    Column("devices", LargeBinary, nullable=False),  # JSON of tuple[DeviceId, ...]
    Index("cohorts_by_weights", "weights", "kind"),
)

round_summaries = Table(
    "round_summaries",
    METADATA,
    Column("number", BigInteger, ForeignKey("rounds.number"), primary_key=True, autoincrement=False),
    Column(
        "body", LargeBinary, nullable=False
    ),  # JSON of coordinator.records.rounds.RoundSummary; written when the round ends
)

secure_sums = Table(
    "secure_sums",  # deleted with the end of their round
    METADATA,
    Column("round", BigInteger, ForeignKey("rounds.number"), primary_key=True, autoincrement=False),
    Column("state", LargeBinary, nullable=False),  # msgpack of coordinator.records.rounds.StoredSum
)

reports = Table(
    "reports",
    METADATA,
    Column("round", BigInteger, ForeignKey("rounds.number"), nullable=False),
    Column("device", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),  # of the frame
    Column("size_bytes", BigInteger, nullable=False),
    Column("num_examples", BigInteger, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("loss", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("norm", Float, nullable=False),
    Column("received_s", Float, nullable=False),
    PrimaryKeyConstraint("round", "device", "attempt"),
)

report_frames = Table(
    "report_frames",  # a round's frames are deleted when it ends
    METADATA,
    Column("round", BigInteger, nullable=False),
    Column("device", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
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
    Column("body", LargeBinary, nullable=False),  # the chunk's frame
    PrimaryKeyConstraint("round", "device", "attempt", "number"),
)

optimizer_states = Table(
    "optimizer_states",
    METADATA,
    Column("sha256", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

devices = Table(
    "devices",
    METADATA,
    Column("device", String(64), primary_key=True),
    Column("presence", String(16), nullable=False),  # coordinator.rounds.lease.Presence
    Column("state", String(500), nullable=False),
    Column("reason", String(500), nullable=False),
    Column("last_seen_s", Float, nullable=False),
    Column("agent_version", String(500), nullable=False),
    Column("runtime", String(500), nullable=False),
    Column("program", String(64)),
    Column("weights", String(64)),
    Column("version", BigInteger),
    Column("examples", BigInteger, nullable=False),
    Column("task_types", String(1100), nullable=False, server_default="keyboard"),  # sorted, separated by spaces
    Column("codecs", String(1100), nullable=False, server_default=""),  # that it named; like the task types
    Column("emulated", Boolean, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False, server_default="0"),
    Column("last_round", BigInteger, nullable=False),
    Column("rounds_counted", BigInteger, nullable=False),  # one bit per round
    Column("blocked", String(200), nullable=False, server_default=""),  # reason; empty for a device that is not blocked
    Column("refusals", Integer, nullable=False, server_default="0"),
    Column("barred_until_s", Float, nullable=False, server_default="0"),
    Column("labels", String(560), nullable=False, server_default=""),  # sorted, separated by spaces
    Column("week", LargeBinary, nullable=False),  # JSON of coordinator.rounds.week.Week
    # The newest release of the agent that did not work on the device, and why.
    Column("taken_back", String(500), nullable=False, server_default=""),
    Column("notice", String(500), nullable=False, server_default=""),  # what it said of itself, though it goes on
    Column("agent_round", BigInteger, nullable=False, server_default="0"),
    Index("devices_by_last_seen", "last_seen_s"),
    Index("devices_blocked", "device", sqlite_where=text("blocked <> ''"), postgresql_where=text("blocked <> ''")),
)

effects = Table(
    "effects",
    METADATA,
    # SQLite auto-increments only a plain INTEGER column.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("body", LargeBinary, nullable=False),  # JSON of coordinator.records.effects.PendingEffect
    Column("begun", Integer, nullable=False, server_default="0"),  # how many processes started it without finishing
    sqlite_autoincrement=True,  # numbers are never reused
)

facts = Table(
    "facts",
    METADATA,
    Column("name", String(100), primary_key=True),
    Column("value", LargeBinary, nullable=False),  # JSON; the type depends on the name
)

leadership = Table(  # one row, with PostgreSQL only (coordinator.storage.lead)
    "leadership",
    METADATA,
    Column("term", BigInteger, primary_key=True, autoincrement=False),  # number of the leader's term
    Column("host", String(253), nullable=False),  # of the leader
    Column("signing_key", String(64), nullable=False),  # its public half
)

artifacts = Table(  # with PostgreSQL, unless artifacts_url names another store
    "artifacts",
    METADATA,
    Column("sha256", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("stored_s", Float, nullable=False, server_default="0"),  # when it was last stored
)

tokens = Table(
    "tokens",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),  # coordinator.tasks.operations.Role
    Column("sha256", String(64), nullable=False, unique=True),  # of the token, which itself is not stored
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
    sqlite_autoincrement=True,  # a gap in the numbers means that an entry was deleted
)

counters = Table(
    "counters",
    METADATA,
    Column("name", String(100), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

samples = Table(
    "samples",
    METADATA,
    Column("at_s", Float, primary_key=True),
    Column("body", LargeBinary, nullable=False),  # JSON of coordinator.storage.fleet.Sample
)

claims = Table(
    "claims",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("sha256", String(64), nullable=False, unique=True),  # of the claim's secret text, which itself is not stored
    Column("device", String(64), nullable=False),
    Column("prefix", String(64), nullable=False),
    Column("uses", Integer, nullable=False),
    Column("uses_left", Integer, nullable=False),
    Column("approval", Boolean, nullable=False),
    Column("labels", String(560), nullable=False, server_default=""),  # of the devices that it lets in
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float, nullable=False),
)

credentials = Table(
    "credentials",
    METADATA,
    Column("key", String(64), primary_key=True),  # sha256 of the public key
    Column("device", String(64), nullable=False),
    Column("claim", String(64), nullable=False),  # empty for a renewal
    Column("standing", String(16), nullable=False),  # coordinator.enrolment.claims.KeyState
    Column("csr", String(4096), nullable=False),
    Column("certificate", String(4096), nullable=False),
    Column("serial", String(49), nullable=False),  # 20 bytes in decimal digits
    Column("authority", String(64), nullable=False),
    Column("address", String(64), nullable=False),
    Column("requested_s", Float, nullable=False),
    Column("expires_s", Float, nullable=False),
    Index("credentials_by_serial", "serial"),
    Index("credentials_by_device", "device"),
    Index("credentials_by_standing", "standing", "requested_s"),
    Index("credentials_by_claim", "claim"),
)

_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


@functools.cache
def upsert(dialect: str, table: Table) -> Any:
    """A statement that inserts or replaces a row by its primary key; in ``counters`` it adds to the value instead.

    Its syntax is the same in both dialects.
    """
    statement = _INSERTS[dialect](table)
    keys = [column.name for column in table.primary_key]
    others = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    if table is counters:
        others = {"value": counters.c.value + statement.excluded.value}
    return statement.on_conflict_do_update(index_elements=keys, set_=others)


def note(connection: Connection, at_s: float, who: str, action: str, target: str, before: str, after: str) -> None:
    """Add an entry to the audit log; the database assigns its number."""
    entry = {"at_s": at_s, "who": who[:64], "action": action, "target": target, "before": before, "after": after[:200]}
    connection.execute(insert(audit).values(entry))
