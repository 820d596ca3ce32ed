"""Entry points of the installed commands, and of ``python -m nightjar.simulation`` and ``nightjar.models``.

Imports nothing but the standard library before a command does, so that a package that was not installed is told in one
sentence, with the extra that brings it.
"""

from __future__ import annotations

import sys
from importlib import import_module

DISTRIBUTION = "nightjar-federated"
_USAGE = 2


def agent() -> None:
    """``nightjar-agent``."""
    _run("nightjar-agent", "nightjar.edge_agent.__main__", "start", "agent")


def coordinator() -> None:
    """``nightjar-coordinator``."""
    _run("nightjar-coordinator", "nightjar.coordinator.__main__", "start", "coordinator")


def firmware() -> None:
    """``nightjar-firmware``."""
    _run("nightjar-firmware", "nightjar.firmware_scripts.__main__", "main", "firmware")


def simulation() -> None:
    """``python -m nightjar.simulation``."""
    _run("nightjar.simulation", "nightjar.simulation.commands", "main", "simulation")


def models() -> None:
    """``python -m nightjar.models``."""
    _run("nightjar.models", "nightjar.models.commands", "run", "coordinator")


def _run(program: str, module: str, function: str, extra: str) -> None:
    try:
        getattr(import_module(module), function)()
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] == "nightjar":
            raise
        message = f"{program}: {error}; 'pip install {DISTRIBUTION}[{extra}]' brings what it needs"
        print(message, file=sys.stderr)  # noqa: T201 - commands print
        sys.exit(_USAGE)
