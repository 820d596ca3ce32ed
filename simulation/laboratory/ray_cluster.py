"""Connects to a Ray cluster, and tells whether its machines have the same software as this one.

Ray is optional: ``pip install nightjar-federated[ray]``.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import socket
from collections.abc import Iterable
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

from nightjar.wire.errors import ConfigError, UnavailableError

CLIENT = "ray://"
"""What the address of a Ray Client server begins with."""
CONNECTION_TIMEOUT_S = 5.0
"""Ray itself waits for minutes where nobody listens."""
RESTARTS = 3
"""How often a worker may die: machines come and go, but a worker that dies again and again has no memory left."""


def connected(address: str) -> Any:
    """The module ray, connected to a cluster.

    Args:
        address: ``auto`` for a cluster that this machine belongs to, ``HOST:PORT``, or ``ray://HOST:PORT``.

    Raises:
        ConfigError: Ray is not installed, or this is no address.
        UnavailableError: no cluster answers.
    """
    if util.find_spec("ray") is None:
        msg = "a Ray cluster needs Ray: pip install 'nightjar-federated[ray]'"
        raise ConfigError(msg)
    import ray

    if address != "auto":
        _knock(address)
    try:
        with contextlib.chdir("/"):  # Ray puts the current folder on its workers' module path
            ray.init(address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        msg = f"no Ray cluster answers at {address} ({error}); start one with 'ray start --head'"
        raise UnavailableError(msg) from error
    return ray


def installed(packages: Iterable[str], *further: str) -> str:
    """What a result depends on: versions of Python, numpy and ``further``, and a digest of the sources of packages."""
    root = Path(__file__).parents[2]
    sources = (sorted(root.glob(f"{package}/**/*.py")) for package in packages)
    digest = hashlib.sha256(b"".join(path.read_bytes() for paths in sources for path in paths)).hexdigest()[:12]
    return ", ".join([f"Python {platform.python_version()}, numpy {np.__version__}", *further, f"Nightjar {digest}"])


def check_installed(machine: str, theirs: str, ours: str) -> None:
    """Check that a machine of the cluster has the software of this one.

    Raises:
        ConfigError: it has not.
    """
    if theirs != ours:
        msg = f"{machine} has {theirs}, and this machine {ours}: install the same on both"
        raise ConfigError(msg)


def _knock(address: str) -> None:
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if not host or not port.isdecimal():
        msg = f"address of a Ray cluster: expected auto, HOST:PORT or {CLIENT}HOST:PORT, got {address!r}"
        raise ConfigError(msg)
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECTION_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        msg = f"no Ray cluster answers at {address} ({error}); start one with 'ray start --head'"
        raise UnavailableError(msg) from error
