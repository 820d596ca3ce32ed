"""The command ``privacy``: says who can learn what from the devices of a task."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from coordinator.commands.options import config_option, json_option
from coordinator.commands.setting import configuration, opened
from coordinator.tasks.privacy import explained
from wire.errors import ConfigError
from wire.secure_sum.terms import threshold_for


@click.group()
def privacy() -> None:
    """Privacy: what a task reveals about the people whose devices take part."""


@privacy.command()
@config_option
@json_option
@click.argument("name", required=False)
def explain(config_path: Path, name: str | None, *, as_json: bool) -> None:
    """Say who can learn what, with figures; the default is the configuration's task."""
    config = configuration(config_path)
    settings = config.task.settings()
    if name not in {None, config.task.name}:
        with opened(config) as database, database.transaction() as view:
            record = view.task(str(name))
        if record is None:
            msg = f"there is no task {name}; 'nightjar-coordinator task list' lists them"
            raise ConfigError(msg)
        settings = record.settings
    sentences = explained(settings.privacy, settings.minimum, threshold_for(settings.minimum))
    if as_json:
        answer = {"task": settings.name, "privacy": settings.privacy.value, "who_learns_what": sentences}
        click.echo(msgspec.json.encode(answer))
        return
    click.echo(f"{settings.name}: privacy = {settings.privacy.value}\n")
    click.echo("\n".join(f"- {sentence}" for sentence in sentences))
    click.echo("\nMeasured with a small model on chat (docs/privacy.md); a better attack gets more.")
