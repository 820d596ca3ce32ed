"""Asks the engine in a bundle for its component file, which tells IBus of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nightjar.firmware_scripts.debian.contents import installed_files
from nightjar.firmware_scripts.debian.packages import ENGINE
from nightjar.host.children import python_command
from nightjar.host.programs import run_program
from nightjar.wire.errors import ConfigError

_MODULE = "nightjar.edge_agent.desktop"
_NEEDED = ("nightjar/__init__.py", "nightjar/edge_agent/__init__.py")
_TIMEOUT_S = 60.0


def component_of(bundle: Mapping[str, bytes]) -> str:
    """The component file of the engine in a bundle whose signature was checked: its own code is run.

    Raises:
        ConfigError: the bundle has no engine, or one that does not know its component.
        UnavailableError: Python could not be run.
    """
    own = f"{_MODULE.replace('.', '/')}/"
    modules = {path: data for path, data in installed_files(bundle).items() if path in _NEEDED or path.startswith(own)}
    if f"{own}__main__.py" not in modules:
        msg = "the bundle has no engine for IBus; make it again with this release of nightjar-firmware"
        raise ConfigError(msg)
    with tempfile.TemporaryDirectory(prefix="nightjar-deb-") as folder:
        for path, data in modules.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(data)
        command = python_command("-B", "-s", "-m", _MODULE, "--component", f"/{ENGINE}")
        done = run_program(command, _TIMEOUT_S, {**os.environ, "PYTHONPATH": folder})
    if done.returncode or "<component>" not in done.stdout:
        msg = f"the bundle's engine did not tell its component file: {done.stderr.strip()[-300:]}"
        raise ConfigError(msg)
    return done.stdout
