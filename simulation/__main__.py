"""``python -m simulation``: the commands of this package."""

from __future__ import annotations

import sys

import click

from simulation.demo.command import demo
from simulation.rounds.command import rounds
from wire.errors import NightjarError


@click.group()
def commands() -> None:
    """Run Nightjar's parts together on this machine."""


commands.add_command(demo)
commands.add_command(rounds)


def main() -> None:
    """Run a command; an expected fault is one line and an exit status, never a traceback."""
    try:
        commands(prog_name="simulation")
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
