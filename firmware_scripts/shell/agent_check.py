"""Asks the agent's own program whether it would take settings, before they go onto a card."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec

from wire.errors import ConfigError

_TIMEOUT_S = 60.0
_REFUSED = 2


def check_agent_settings(text: str, *, has_claim: bool) -> None:
    """Return if the agent would take these settings, or is not installed here to be asked.

    Args:
        text: of agent.toml.
        has_claim: the device is told who and where it is when it enrols.

    Raises:
        ConfigError: it would not; the message has every fault.
    """
    if find_spec("edge_agent") is None:
        return
    with tempfile.NamedTemporaryFile("w", prefix="nightjar-", suffix=".toml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        command = [sys.executable, "-m", "edge_agent", "check", *(["--enrols"] if has_claim else []), file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)  # noqa: S603 - our own module
        except (OSError, subprocess.TimeoutExpired):
            return  # the device says it itself
        if done.returncode == _REFUSED:
            said = done.stderr.strip().replace(file.name, "agent.toml").removeprefix("nightjar-agent: ")
            msg = f"the agent would not take its settings: {said}"
            raise ConfigError(msg)
