"""``nightjar-agent enrol``: gets this device its certificate, before anything else is configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_agent.config import data_dir_of
from edge_agent.enrolment.enrolling import Enrolment, enrol
from edge_agent.shell.folder import own_folder, running_agent


def enrol_with_claim(path: Path, environment: Mapping[str, str], claim: Path, also_wipe: Sequence[Path]) -> Enrolment:
    """Enrol with a claim file.

    Args:
        path: the agent's TOML file; only ``data_dir`` is read.
        environment: environment variables that override the file.
        claim: the claim file.
        also_wipe: other files that contain the claim.

    Raises:
        ConfigError: a file cannot be used, or the claim is refused.
        RemoteProtocolError: the server that answers is not the claim's coordinator.
        UnavailableError: the coordinator cannot be reached, or an operator has to admit the device.
    """
    data_dir = data_dir_of(path, environment)
    if running_agent(data_dir):
        return enrol(data_dir, claim, also_wipe)  # the agent holds the folder's lock; only identity/ changes
    with own_folder(data_dir):
        return enrol(data_dir, claim, also_wipe)
