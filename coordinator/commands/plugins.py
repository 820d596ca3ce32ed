"""The command ``plugins``: what installed packages add to this coordinator."""

from __future__ import annotations

import click
import msgspec

from coordinator import __version__
from coordinator.commands.options import json_option
from models.task_types import listed


@click.command()
@json_option
def plugins(*, as_json: bool) -> None:
    """Task types that this coordinator can serve, with their package and version, and why one cannot be loaded."""
    found = listed(__version__)
    if as_json:
        click.echo(msgspec.json.encode([each._asdict() for each in found]).decode())
        return
    for each in found:
        fault = f": cannot be loaded: {each.fault}" if each.fault else ""
        click.echo(f"{each.kind} {each.name}: {each.package} {each.version}{fault}")
