"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "config_path",
    default=Path("coordinator.toml"),
    show_default=True,
    envvar="NIGHTJAR_CONFIG",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="The coordinator's TOML file.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
limit_option = click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most.")
