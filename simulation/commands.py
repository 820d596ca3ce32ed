"""``python -m nightjar.simulation``: the commands of this package."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from nightjar.host.command_output import watch_output
from nightjar.wire.errors import ConfigError, NightjarError

MODULES = {
    "demo": "nightjar.simulation.demo.command",
    "learn": "nightjar.simulation.laboratory.command",
    "rounds": "nightjar.simulation.rounds.command",
    "year": "nightjar.simulation.year.command",
}
"""Module of each command, imported on use: the imports of the demo would double the memory of a simulation."""


class Commands(click.Group):
    """A group of commands that are imported on use."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Names of the commands."""
        return list(MODULES)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """The command with this name; None if there is none."""
        if name == moved.name:
            return moved
        if name not in MODULES:
            return None
        found: click.Command = getattr(import_module(MODULES[name]), name)
        return found


@click.command("silos", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1)
def moved(arguments: tuple[str, ...]) -> None:
    """Names the command that this one has become."""
    msg = f"this is a study: python -m nightjar.experiments.silos {' '.join(arguments)}".rstrip()
    raise ConfigError(msg)


@click.group(cls=Commands)
def commands() -> None:
    """Run the parts of Nightjar together on this machine."""


def main() -> None:
    """Run a command; an expected error is printed as one line, without a traceback."""
    watch_output()
    try:
        commands(prog_name="python -m nightjar.simulation")
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)
