"""The command ``nightjar-ibus``: ``/usr/bin/python3 -m nightjar.edge_agent.desktop``, which IBus starts."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from nightjar.edge_agent import __version__
from nightjar.edge_agent.desktop.component import component_xml
from nightjar.edge_agent.desktop.settings import read_settings, settings_path, socket_path

UNAVAILABLE = 3
"""Exit status where something is missing."""


def main(arguments: list[str] | None = None) -> int:
    """Serve IBus, or print its component file. The exit status."""
    parser = argparse.ArgumentParser("nightjar-ibus", description=__doc__)
    parser.add_argument("--ibus", action="store_true", help="started by IBus")
    parser.add_argument("--component", metavar="COMMAND", help="print the component file with this command for IBus")
    parser.add_argument("--version", action="version", version=__version__)
    chosen = parser.parse_args(arguments)
    if chosen.component is not None:
        print(component_xml(f"{shlex.join(shlex.split(chosen.component))} --ibus", __version__), end="")
        return 0
    try:
        from nightjar.edge_agent.desktop.engine import NoIBusError, serve
    except (ImportError, ValueError) as error:
        return _failed(f"expected python3-gi and gir1.2-ibus-1.0, got: {error}; install them")
    path = settings_path(os.environ, Path.home())
    settings, faults = read_settings(path)
    for fault in faults:
        _failed(f"{path}: {fault}; the default stays{'' if settings.keep else ', and nothing is kept'}")
    try:
        serve(settings, socket_path(os.environ, Path.home(), settings))
    except NoIBusError as error:
        return _failed(str(error))
    return 0


def _failed(why: str) -> int:
    print(f"nightjar-ibus: {why}", file=sys.stderr)
    return UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
