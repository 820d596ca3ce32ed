"""``python -m simulation``: the commands of this package."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from wire.errors import NightjarError

MODULES = {
    "demo": "simulation.demo.command",
    "learn": "simulation.laboratory.command",
    "rounds": "simulation.rounds.command",
}
"""Where each command is. Imported when it is asked for: the demo's database is half of the memory of a simulation."""


class Commands(click.Group):
    """Commands that are imported when they are asked for."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Their names."""
        return list(MODULES)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """One of them; None if there is none of that name."""
        if name not in MODULES:
            return None
        found: click.Command = getattr(import_module(MODULES[name]), name)
        return found


@click.group(cls=Commands)
def commands() -> None:
    """Run Nightjar's parts together on this machine."""


def main() -> None:
    """Run a command; an expected fault is one line and an exit status, never a traceback."""
    try:
        commands(prog_name="simulation")
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
