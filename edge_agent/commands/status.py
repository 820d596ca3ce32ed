"""``nightjar-agent status``: what the agent does, holds and has sent. Reads its folder, so it works without it too."""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent import __version__
from edge_agent.commands.opened import held_model, opened_database
from edge_agent.config import KEYBOARD_HOST, AgentConfig
from edge_agent.core import lifecycle
from edge_agent.keyboard.key import address
from edge_agent.shell.database import Database
from edge_agent.shell.folder import running_agent
from edge_agent.shell.trust import REFUSED, WHY, trusted


@dataclass(frozen=True, slots=True)
class Found:
    """What there is. Numbers and names only, nothing that was typed.

    Attributes:
        device: its name.
        emulated: an emulated phone.
        agent_version: of this program.
        running: whether the agent runs.
        pid: its process number; None if it does not run.
        state: of the lifecycle, as it was last written.
        reason: why it is in that state.
        learning_paused: the person paused it.
        messages: stored.
        message_bytes: of these.
        model_version: of the model held; None if there is none.
        coordinator_key: whose orders are obeyed, in hex; empty if no coordinator is known yet.
        orders_refused: how often a model or an assignment was refused: not signed by that key, old, or outside limits.
        refused_because: why the last one was.
        report_waiting: a report has no receipt yet.
        reports_sent: accepted by the coordinator.
        bytes_sent: of these.
        last_report_bytes: size of the newest report.
        last_trained_at_s: seconds since 1970 UTC.
        keyboard_url: opens the keyboard page in a browser, with its key; None if it was not served yet.
    """

    device: str
    emulated: bool
    agent_version: str
    running: bool
    pid: int | None
    state: str
    reason: str
    learning_paused: bool
    messages: int
    message_bytes: int
    model_version: int | None
    coordinator_key: str
    orders_refused: int
    refused_because: str
    report_waiting: bool
    reports_sent: int
    bytes_sent: int
    last_report_bytes: int | None
    last_trained_at_s: float | None
    keyboard_url: str | None


def status(config: AgentConfig) -> Found:
    """Look into the agent's folder.

    Raises:
        ConfigError: it cannot be used.
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
        tally = None if database is None else database.tally()
        return Found(
            device=config.device,
            emulated=config.emulator is not None,
            agent_version=__version__,
            running=pid is not None,
            pid=pid,
            state=name,
            reason=reason,
            learning_paused=database is not None and database.learning_paused(),
            messages=0 if database is None else database.count(),
            message_bytes=0 if database is None else database.size_bytes(),
            model_version=None if model is None else model.manifest.version,
            coordinator_key=_key(config, database),
            orders_refused=0 if database is None else int(database.fact(REFUSED) or 0),
            refused_because="" if database is None else database.fact(WHY) or "",
            report_waiting=remembered is not None and remembered.parcel is not None,
            reports_sent=0 if tally is None else tally.reports_sent,
            bytes_sent=0 if tally is None else tally.bytes_sent,
            last_report_bytes=None if tally is None else tally.last_report_bytes,
            last_trained_at_s=None if tally is None else tally.last_trained_at_s,
            keyboard_url=address(f"http://{KEYBOARD_HOST}:{keyboard.port}/", config.data_dir)
            if keyboard.enabled and keyboard.port
            else None,
        )


def _key(config: AgentConfig, database: Database | None) -> str:
    return config.coordinator_key if database is None else trusted(database, config.coordinator_key).key
