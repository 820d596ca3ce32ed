"""``nightjar-agent status``: shows what the agent does, stores and has sent. Reads its folder, so it need not run."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, fields

from edge_agent import __version__
from edge_agent.commands.opened import held_model, opened_database
from edge_agent.config import KEYBOARD_HOST, AgentConfig
from edge_agent.connection import FACT as CONNECTION
from edge_agent.connection import decoded
from edge_agent.core import lifecycle
from edge_agent.core.privacy_ledger import spent
from edge_agent.keyboard.key import address
from edge_agent.shell.database import Database
from edge_agent.shell.folder import running_agent
from edge_agent.shell.trust import REFUSED, WHY, trusted


@dataclass(frozen=True, slots=True)
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
        keyboard_url: opens the keyboard page in a browser, with its key; None if the page was never served.
    """

    device: str
    emulated: bool
    agent_version: str
    running: bool
    pid: int | None
    state: str
    reason: str
    connected: bool
    connected_since_s: float | None
    not_connected_because: str
    learning_paused: bool
    messages: int
    message_bytes: int
    model_version: int | None
    coordinator_key: str
    orders_refused: int
    refused_because: str
    privacy_spent: float
    privacy: list[str]
    report_waiting: bool
    reports_sent: int
    bytes_sent: int
    last_report_bytes: int | None
    last_trained_at_s: float | None
    keyboard_url: str | None


def status(config: AgentConfig) -> AgentStatus:
    """Read the status from the agent's folder.

    Raises:
        ConfigError: the folder cannot be used.
    """
    pid = running_agent(config.data_dir)
    keyboard = config.keyboard
    model = held_model(config)
    with opened_database(config) as database:
        remembered = None if database is None else database.load()
        state = lifecycle.STARTING if remembered is None or remembered.lifecycle is None else remembered.lifecycle
        if pid is None and remembered is None:
            name, reason = "never-started", "the agent has not run here yet"
        else:
            name, reason = lifecycle.name(state), lifecycle.reason(state)
        connection = None if database is None else decoded(database.fact(CONNECTION))
        connected = pid is not None and connection is not None and connection.connected
        because = "the agent does not run" if pid is None else "it has not connected yet"
        tally = None if database is None else database.tally()
        entries = [] if database is None else database.ledger()
        return AgentStatus(
            device=config.device,
            emulated=config.emulator is not None,
            agent_version=__version__,
            running=pid is not None,
            pid=pid,
            state=name,
            reason=reason,
            connected=connected,
            connected_since_s=None if connection is None or connection.connected != connected else connection.since_s,
            not_connected_because="" if connected else (connection and connection.reason) or because,
            learning_paused=database is not None and database.learning_paused(),
            messages=0 if database is None else database.count(),
            message_bytes=0 if database is None else database.size_bytes(),
            model_version=None if model is None else model.manifest.version,
            coordinator_key=_key(config, database),
            orders_refused=0 if database is None else int(database.fact(REFUSED) or 0),
            refused_because="" if database is None else database.fact(WHY) or "",
            privacy_spent=spent(entries),
            privacy=[
                f"{each.task}: epsilon {each.terms.epsilon:g}, delta {each.terms.delta:g} after {each.terms.rounds} "
                f"rounds; {each.reports} reports"
                for each in entries
            ],
            report_waiting=remembered is not None and remembered.parcel is not None,
            reports_sent=0 if tally is None else tally.reports_sent,
            bytes_sent=0 if tally is None else tally.bytes_sent,
            last_report_bytes=None if tally is None else tally.last_report_bytes,
            last_trained_at_s=None if tally is None else tally.last_trained_at_s,
            keyboard_url=address(f"http://{KEYBOARD_HOST}:{keyboard.port}/", config.data_dir)
            if keyboard.enabled and keyboard.port
            else None,
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
        elif field.name == "privacy":
            rows += [("privacy", line) for line in value]
        elif field.name not in {"connected_since_s", "not_connected_because"}:
            rows.append((field.name.replace("_", " "), value))
    return rows


def _local(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")


def _key(config: AgentConfig, database: Database | None) -> str:
    return config.coordinator_key if database is None else trusted(database, config.coordinator_key).key
