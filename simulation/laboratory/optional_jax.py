"""JAX, which is optional: its settings, and what is said where it is missing."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from nightjar.wire.errors import ConfigError


def needing_jax(name: str) -> ModuleType:
    """Import a module that needs JAX.

    Raises:
        ConfigError: JAX is not installed.
    """
    # JAX reads them at its first computation. Runs share a GPU, and a seed gives the same curve again.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        msg = f"--jax needs JAX: pip install 'nightjar-federated[jax]' ({error})"
        raise ConfigError(msg) from error
