"""Opens an agent's data for the commands, whether the agent runs or not. Creates nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from edge_agent.assembly import caps, emulation_started_s
from edge_agent.config import AgentConfig
from edge_agent.core.eligibility import Condition, Readings, yes_or_no
from edge_agent.device import DeviceProfile, assembled_device, typing_activity
from edge_agent.model import Model
from edge_agent.shell.clock import SystemClock
from edge_agent.shell.database import Database
from edge_agent.shell.folder import ARTIFACTS, DATABASE
from edge_agent.shell.http import Downloader
from edge_agent.shell.model_files import ModelFiles


@contextlib.contextmanager
def opened_database(config: AgentConfig) -> Iterator[Database | None]:
    """The agent's database; None if the agent never ran.

    Raises:
        ConfigError: the database cannot be used.
    """
    path = config.data_dir / DATABASE
    if not path.exists():
        yield None
        return
    database = Database(path, caps(config), SystemClock())
    try:
        yield database
    finally:
        database.close()


def model_files(config: AgentConfig) -> ModelFiles | None:
    """The models on this device; None if it never had one."""
    folder = config.data_dir / ARTIFACTS
    return ModelFiles(folder, Downloader(config.coordinator_url)) if folder.is_dir() else None


def held_model(config: AgentConfig) -> Model | None:
    """The newest model on this device; None if there is none."""
    files = model_files(config)
    return None if files is None else files.current()


def device_beside(config: AgentConfig, database: Database | None) -> DeviceProfile:
    """The device's profile as the agent sees it."""
    clock = SystemClock()
    started = clock.wall_s() if database is None else emulation_started_s(database, clock)
    paused = (lambda: False) if database is None else database.learning_paused
    return assembled_device(config, clock, typing_activity(config), paused, started)


def readings_of(device: DeviceProfile, database: Database | None) -> Readings:
    """All readings that the agent takes before it trains."""
    some = database is not None and database.count() > 0
    own = yes_or_no(some, "example store", "has messages", "nothing typed yet")
    return {**device.conditions.read(), Condition.HAS_EXAMPLES: own}
