"""Validates settings with the agent's own program before they go onto a card."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec

from wire.errors import ConfigError

_TIMEOUT_S = 60.0
_REFUSED = 2


def check_agent_settings(text: str, *, has_claim: bool) -> None:
    """Check that the agent would accept these settings; skipped if the agent cannot be run here.

    Args:
        text: the text of agent.toml.
        has_claim: whether the device gets its name and addresses when it enrols.

    Raises:
        ConfigError: the agent rejects the settings; the message lists every fault.
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
            return  # the device reports any fault itself
        if done.returncode == _REFUSED:
            faults = done.stderr.strip().replace(file.name, "agent.toml").removeprefix("nightjar-agent: ")
            msg = f"the agent would not take its settings: {faults}"
            raise ConfigError(msg)
