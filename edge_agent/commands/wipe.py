"""``nightjar-agent wipe``: deletes all typed text and everything derived from it, whether the agent runs or not.

A running agent gets a signal, so that it stops a session that still holds the text in memory and drops its deleted
report.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from nightjar.edge_agent.assembly import WIPE_S, WIPE_SIGNAL
from nightjar.edge_agent.commands.opened import model_files, opened_database
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.shell.folder import running_agent
from nightjar.wire.errors import ConfigError, UnavailableError


@dataclass(frozen=True, slots=True)
class Wiped:
    """How many messages were stored, and whether the running agent deleted them."""

    messages: int
    by_agent: bool


def wipe(config: AgentConfig) -> Wiped:
    """Delete everything.

    Raises:
        ConfigError: the folder cannot be used, or the agent belongs to another user.
        UnavailableError: the data could not be deleted (yet).
    """
    pid = running_agent(config.data_dir)
    with opened_database(config) as database:
        if database is None:
            return Wiped(0, by_agent=False)
        messages = database.count()
        if not pid:
            files = model_files(config)
            if files is not None:
                files.forget_personal()
            database.wipe()
            return Wiped(messages, by_agent=False)
        before = database.wipes()
        try:
            os.kill(pid, WIPE_SIGNAL)
        except PermissionError as error:
            msg = f"the agent (process {pid}) belongs to another user; run this as that user or as root"
            raise ConfigError(msg) from error
        until_s = time.monotonic() + WIPE_S
        while database.wipes() == before:
            if time.monotonic() > until_s:
                msg = f"the agent (process {pid}) has not deleted anything within {WIPE_S:.0f} s; stop it and try again"
                raise UnavailableError(msg)
            time.sleep(0.1)
        return Wiped(messages, by_agent=True)
