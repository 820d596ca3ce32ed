"""``nightjar-agent status``: shows what the agent does, stores and has sent. Reads its folder, so it need not run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from nightjar.edge_agent import __version__
from nightjar.edge_agent.commands.opened import held_model, opened_database
from nightjar.edge_agent.config import KEYBOARD_HOST, AgentConfig
from nightjar.edge_agent.core import lifecycle
from nightjar.edge_agent.core.card_budget import today_mb
from nightjar.edge_agent.core.privacy_ledger import LOST, spent
from nightjar.edge_agent.keyboard.key import address, served_port
from nightjar.edge_agent.link.connection import FACT as CONNECTION
from nightjar.edge_agent.link.connection import decoded
from nightjar.edge_agent.link.trust import REFUSED, WHY, trusted
from nightjar.edge_agent.shell.card_use import read_budget
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.folder import running_agent
from nightjar.host.put_away import notes


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """The agent's status: numbers and names only, no typed text.

    Attributes:
        state: the lifecycle state, as last stored.
        connected_since_s: since when it is or is not, seconds since 1970 UTC; None if it was never noted.
        not_connected_because: why it is not; the coordinator's words if it refuses this device.
        coordinator_key: the trusted key that signs orders, in hex; empty if no coordinator is known yet.
        orders_refused: number of refused models and assignments: not signed by the key, too old, or outside limits.
        privacy_spent: epsilon of all tasks that it took part in; 0 if none had differential privacy.
        privacy: by task, what was promised and how many reports were made.
        report_waiting: whether a report has no receipt yet.
        last_trained_at_s: when the last training ended, seconds since 1970 UTC; None if never.
        written_today_mb: what the agent wrote to the card within a day, as of the last hour.
        written_mb_per_day: the most that it may write (``[limits]``).
        put_away: damaged files that were put away, and why.
        keyboard_url: opens the keyboard page in a browser, with its key; None if the page was never served.
    """

    device: str
    emulated: bool
    agent_version: str = __version__
    running: bool
    pid: int | None
    state: str
    reason: str
    connected: bool = False
    connected_since_s: float | None = None
    not_connected_because: str
    learning_paused: bool = False
    messages: int = 0
    message_bytes: int = 0
    model_version: int | None
    coordinator_key: str
    orders_refused: int = 0
    refused_because: str = ""
    privacy_spent: float = 0.0
    privacy: Sequence[str] = ()
    report_waiting: bool = False
    reports_sent: int = 0
    bytes_sent: int = 0
    last_report_bytes: int | None = None
    last_trained_at_s: float | None = None
    keyboard_url: str | None
    written_today_mb: float = 0.0
    written_mb_per_day: float = 0.0
    put_away: Sequence[str] = ()


def status(config: AgentConfig) -> AgentStatus:
    """Read the status from the agent's folder.

    Raises:
        ConfigError: the folder cannot be used.
    """
    pid = running_agent(config.data_dir)
    keyboard, model = config.keyboard, held_model(config)
    port = keyboard.port or (served_port(config.data_dir) if pid is not None else 0)
    url = f"http://{KEYBOARD_HOST}:{port}/"
    now_s = SystemClock(config.data_dir).trusted_s()
    found = AgentStatus(
        device=config.device,
        emulated=config.emulator is not None,
        running=pid is not None,
        pid=pid,
        state="never-started" if pid is None else lifecycle.name(lifecycle.STARTING),
        reason="the agent has not run here yet" if pid is None else lifecycle.reason(lifecycle.STARTING),
        not_connected_because="the agent does not run" if pid is None else "it has not connected yet",
        model_version=None if model is None else model.manifest.version,
        coordinator_key=config.coordinator_key,
        keyboard_url=address(url, config.data_dir) if keyboard.enabled and port else None,
        written_today_mb=round(today_mb(read_budget(config.data_dir, now_s)), 1),
        written_mb_per_day=config.limits.written_mb_per_day,
        put_away=notes(config.data_dir),
    )
    with opened_database(config) as database:
        return found if database is None else _with_stored(found, database, config.coordinator_key)


def _with_stored(found: AgentStatus, database: Database, given_key: str) -> AgentStatus:
    """The status with what the database adds."""
    remembered, tally, entries = database.load(), database.tally(), database.ledger()
    state = remembered.lifecycle or lifecycle.STARTING
    connection = decoded(database.fact(CONNECTION))
    connected = found.running and connection is not None and connection.connected
    return replace(
        found,
        state=lifecycle.name(state),
        reason=lifecycle.reason(state),
        connected=connected,
        connected_since_s=None if connection is None or connection.connected != connected else connection.since_s,
        not_connected_because="" if connected else (connection and connection.reason) or found.not_connected_because,
        learning_paused=database.learning_paused(),
        messages=database.count(),
        message_bytes=database.size_bytes(),
        coordinator_key=trusted(database, given_key).key,
        orders_refused=int(database.fact(REFUSED) or 0),
        refused_because=database.fact(WHY) or "",
        privacy_spent=spent(entries),
        privacy=[
            f"{each.task}: epsilon {each.terms.epsilon:g}, delta {each.terms.delta:g} after {each.terms.rounds} "
            f"rounds; {each.reports} reports"
            for each in entries
            if each != LOST
        ],
        report_waiting=remembered.parcel is not None,
        reports_sent=tally.reports_sent,
        bytes_sent=tally.bytes_sent,
        last_report_bytes=tally.last_report_bytes,
        last_trained_at_s=tally.last_trained_at_s,
    )


def in_words(found: AgentStatus) -> list[tuple[str, object]]:
    """The status for people: the connection in one line, times in the device's time zone."""
    rows: list[tuple[str, object]] = []
    for field in fields(found):
        value = getattr(found, field.name)
        if field.name == "connected":
            since = "" if found.connected_since_s is None else f", since {_local(found.connected_since_s)}"
            because = "" if value else f", because {found.not_connected_because}"
            rows.append(("connected", f"{'yes' if value else 'no'}{since}{because}"))
        elif field.name == "last_trained_at_s":
            rows.append(("last trained", None if value is None else _local(value)))
        elif field.name in {"privacy", "put_away"}:
            rows += [(field.name.replace("_", " "), line) for line in value]
        elif field.name not in {"connected_since_s", "not_connected_because"}:
            rows.append((field.name.replace("_", " "), value))
    return rows


def _local(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
