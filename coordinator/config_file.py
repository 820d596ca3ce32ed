"""Reads the coordinator's configuration: ``NIGHTJAR_TASK_GOAL`` goes over ``goal`` in ``[task]``, and so on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coordinator.config import CoordinatorConfig, disagreements
from host.configuration import Reader, accepted, read_toml

ENVIRONMENT_PREFIX = "NIGHTJAR"


def load_config(path: Path, environment: Mapping[str, str]) -> CoordinatorConfig:
    """The configuration of the coordinator.

    Args:
        path: the TOML file.
        environment: such as ``os.environ``.

    Raises:
        ConfigError: the file cannot be read, or something in it cannot be used; the message has every fault.
    """
    table = read_toml(path, "'nightjar-coordinator init' writes one to begin with")
    reader = Reader(path.resolve().parent, environment, ENVIRONMENT_PREFIX)
    config = reader.read(CoordinatorConfig, table)
    return accepted(path, config, reader.faults if config is None else disagreements(config))
