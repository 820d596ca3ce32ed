"""Opens an agent's data for the commands, whether the agent runs or not. Creates nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from nightjar.edge_agent.assembly import caps, programs_of
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.folder import ARTIFACTS, DATABASE
from nightjar.edge_agent.shell.http import Downloader
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.owned_programs import no_document


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
    database = Database(path, caps(config), SystemClock(config.data_dir))
    try:
        yield database
    finally:
        database.close()


def model_files(config: AgentConfig) -> ModelFiles | None:
    """The models on this device; None if it never had one."""
    folder = config.data_dir / ARTIFACTS
    if not folder.is_dir():
        return None
    return ModelFiles(folder, Downloader(config.coordinator_url), programs_of(config, os.environ, no_document))


def held_model(config: AgentConfig) -> Model | None:
    """The model that the keyboard has, or without one the newest on this device; None if there is none."""
    files = model_files(config)
    return None if files is None else files.announced()


def runnable(config: AgentConfig, model: Model) -> Model:
    """A model of this device whose program may be run.

    Raises:
        RemoteProtocolError: its program neither came with the agent nor did the device's owner sign it.
        UnavailableError: that cannot be found out now.
    """
    files = model_files(config)
    return model if files is None else files.runnable(model)
