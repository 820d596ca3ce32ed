"""Checks settings with the programs that will read them, before they go onto a card."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec

from nightjar.host.children import python_command
from nightjar.host.programs import run_program
from nightjar.wire.errors import ConfigError, UnavailableError

_TIMEOUT_S = 60.0
_REFUSED = 2


def check_agent_settings(text: str, *, has_claim: bool) -> None:
    """Check that the agent would accept this agent.toml; skipped if the agent cannot be run here.

    With a claim, the device gets its name and addresses when it enrols.

    Raises:
        ConfigError: the agent rejects the settings; the message lists every fault.
    """
    if find_spec("nightjar.edge_agent") is None:
        return
    command = python_command("-m", "nightjar.edge_agent", "check", *(["--enrols"] if has_claim else []))
    try:
        status, output = _read_by(command, text, "agent.toml")
    except UnavailableError:
        return  # the device reports any fault itself
    if status == _REFUSED:
        msg = f"the agent would not take its settings: {output.strip().removeprefix('nightjar-agent: ')}"
        raise ConfigError(msg)


def cloud_init_schema(user_data: str) -> str | None:
    """Why cloud-init would refuse the file; empty if it would accept it; None if cloud-init cannot be run here."""
    try:
        status, output = _read_by(["cloud-init", "schema", "--config-file"], user_data, "user-data")
    except UnavailableError:
        return None
    return (" ".join(output.split())[:300] or f"status {status}") if status else ""


def _read_by(command: Sequence[str], text: str, name: str) -> tuple[int, str]:
    """Run a program on a file with this text; return its status, and its output, in which the file has this name."""
    with tempfile.NamedTemporaryFile("w", prefix="nightjar-", suffix=f"-{name}", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        done = run_program([*command, file.name], _TIMEOUT_S)
    return done.returncode, f"{done.stdout}\n{done.stderr}".replace(file.name, name)
