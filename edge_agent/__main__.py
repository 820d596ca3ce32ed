"""The command ``nightjar-agent``, also ``python -m edge_agent``."""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

import click

from edge_agent import __version__
from edge_agent.assembly import run_agent
from edge_agent.config import load
from edge_agent.shell.logs import set_up
from wire.errors import NightjarError


@click.group()
@click.version_option(__version__, prog_name="nightjar-agent")
def main() -> None:
    """Nightjar's agent: trains a keyboard model on this device, and sends small updates."""


@main.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The agent's TOML file.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least that is logged.",
)
def run(path: Path, log_level: str) -> None:
    """Run the agent until it is asked to stop (SIGTERM or ctrl-C)."""
    set_up(log_level)
    try:
        run_agent(load(path, os.environ))
    except NightjarError as error:
        click.echo(f"nightjar-agent: {error}", err=True)
        sys.exit(error.exit_status)


@main.command()
def example() -> None:
    """Print a configuration file with every setting and why it is what it is."""
    click.echo((resources.files("edge_agent") / "example.toml").read_text(encoding="utf-8"), nl=False)


if __name__ == "__main__":
    main()
