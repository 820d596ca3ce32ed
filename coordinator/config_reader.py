"""Reads the coordinator's configuration file; environment variables such as ``NIGHTJAR_TASK_GOAL`` override it.

Each setting is checked by its type. :mod:`nightjar.coordinator.config_file` checks which go together, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.tasks.settings import RETIRED
from nightjar.host.configuration import ConfigurationReader, accepted, read_toml, warn_of
from nightjar.models.folder import HELD_OUT

ENVIRONMENT_PREFIX = "NIGHTJAR"
_NO_RAY = "the coordinator uses no cluster any more (docs/adr/0051-jobs-on-a-ray-cluster.md)"
_MISSING = {
    "task.model": "; add a line such as model = \"model\", the folder that 'python -m nightjar.models export' writes"
}


def read_config(path: Path, environment: Mapping[str, str]) -> CoordinatorConfig:
    """Read the coordinator's configuration from a TOML file and environment variables.

    Raises:
        ConfigError: the file cannot be read, or a setting has the wrong type; the message lists every fault.
    """
    table = read_toml(path, "'nightjar-coordinator init' writes one to begin with")
    retired = {f"task.codec.{name}": why for name, why in RETIRED.items()} | {"ray": _NO_RAY}
    reader = ConfigurationReader(
        path.resolve().parent, environment, ENVIRONMENT_PREFIX, missing=_MISSING, retired=retired
    )
    config = reader.read(CoordinatorConfig, table)
    warn_of(path, reader.ignored)
    if config is not None:
        config = _with_text(config)
    return accepted(path, config, reader.faults)


def _with_text(config: CoordinatorConfig) -> CoordinatorConfig:
    """Use the model's own evaluation text if none is configured and TensorFlow is installed."""
    task, shipped = config.task, config.task.model / HELD_OUT
    if task.evaluation_text is not None or not shipped.is_file() or find_spec("tensorflow") is None:
        return config
    return replace(config, task=replace(task, evaluation_text=shipped))
