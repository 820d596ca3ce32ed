"""The command ``plugins``: what installed packages add to this coordinator."""

from __future__ import annotations

import click
import msgspec

from nightjar.coordinator import __version__
from nightjar.coordinator.commands.options import json_option
from nightjar.coordinator.learning import strategies
from nightjar.models import task_types
from nightjar.wire.codec import codecs
from nightjar.wire.plugins import listed


@click.command()
@json_option
def plugins(*, as_json: bool) -> None:
    """Task types, strategies and codecs of this coordinator, with package and version, and why one cannot be used."""
    found = [
        *listed("task type", task_types.installed(), __version__),
        *listed("strategy", strategies.installed(), __version__),
        *listed("codec", codecs.installed(), __version__),
    ]
    if as_json:
        click.echo(msgspec.json.encode([each._asdict() for each in found]).decode())
        return
    for each in found:
        click.echo(str(each))
