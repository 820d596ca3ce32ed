"""``nightjar-agent enrol``: get this device its certificate, before anything else is configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_agent.config import data_dir_of
from edge_agent.enrolment.enrolling import Enrolment, enrol
from edge_agent.shell.folder import own_folder, running_agent


def enrol_with_claim(path: Path, environment: Mapping[str, str], claim: Path, also_wipe: Sequence[Path]) -> Enrolment:
    """Enrol with a claim file.

    Args:
        path: the agent's TOML file; only ``data_dir`` counts here.
        environment: variables over it.
        claim: the claim file.
        also_wipe: other files in which the claim stands.

    Raises:
        ConfigError: a file cannot be used, or the claim is refused.
        RemoteProtocolError: the server that answers is not the claim's coordinator.
        UnavailableError: try again later.
    """
    data_dir = data_dir_of(path, environment)
    if running_agent(data_dir):
        return enrol(data_dir, claim, also_wipe)  # it holds the folder, and only what lies in identity/ changes
    with own_folder(data_dir):
        return enrol(data_dir, claim, also_wipe)
