"""The command ``task create``: lays what is given over the configuration, and has the running service create the task.

It opens no database, unless a model is imported: the service checks the settings, and answers with the task, what its
privacy is, and how many devices may serve it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click
import msgspec

from nightjar.coordinator.commands.options import json_option, unchecked_config_option
from nightjar.coordinator.commands.service_call import ask_service
from nightjar.coordinator.commands.task_facts import privacy_of, show_task
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.host.configuration import read_toml
from nightjar.wire.errors import ConfigError
from nightjar.wire.messages import Work

_OF_ITS_OWN = ("target_top1", "no_progress_rounds", "variant", "source")
"""Settings of the configuration's task that a new task does not inherit."""


@click.command("create")
@unchecked_config_option
@json_option
@click.argument("name")
@click.option("--kind", default=Work.TRAIN.value, show_default=True, type=click.Choice([kind.value for kind in Work]))
@click.option("--rounds", type=click.IntRange(0), help="Committed rounds that end it; 0 for endless.")
@click.option("--model", type=click.Path(path_type=Path), help="Folder of an exported model that it begins with.")
@click.option("--experiment", help="It is a variant: devices are divided among the tasks of one experiment.")
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), help="Share of the devices of its experiment.")
@click.option("--file", "path", type=click.Path(path_type=Path), help="TOML file with settings, as below [task].")
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any setting, such as plan.learning_rate=0.5."
)
def create_task(
    config: CoordinatorConfig,
    name: str,
    kind: str,
    rounds: int | None,
    model: Path | None,
    experiment: str | None,
    share: float | None,
    path: Path | None,
    pairs: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Create a task; settings that are not given are taken from [task] in the configuration."""
    wanted: dict[str, Any] = msgspec.to_builtins(config.task.settings())
    for left_out in _OF_ITS_OWN:
        del wanted[left_out]
    if path is not None:
        _lay_over(wanted, read_toml(path, "give a file with settings, as below [task]"))
    for pair in pairs:
        _lay_over(wanted, _parsed(pair))
    given = {"experiment": experiment, "share": share}
    _lay_over(wanted, {"variant": {key: value for key, value in given.items() if value is not None}})
    if rounds is not None:
        wanted["rounds"] = rounds
    wanted |= {"name": name, "kind": kind}
    if model is not None:
        wanted["manifest"] = _imported(config, model)
        from nightjar.coordinator.storage.signed_programs import signed_program_in

        signed = signed_program_in(model)
        if signed is not None:
            wanted["signed"] = msgspec.to_builtins(signed)
    answer = ask_service(config, "POST", "/tasks", wanted)
    for line in privacy_of(answer["task"]):
        click.echo(line, err=True)
    _warn_of_too_few(answer)
    show_task(answer["task"], as_json=as_json)


def _imported(config: CoordinatorConfig, folder: Path) -> str:
    """Store a model under its hash with the other artifacts; devices fetch it only if the task is created."""
    from nightjar.coordinator.commands.stored import opened_artifacts  # other tasks are created without a database
    from nightjar.coordinator.storage.model_folder import import_model

    with opened_artifacts(config) as artifacts:
        return import_model(folder, artifacts).sha256


def _warn_of_too_few(answer: dict[str, Any]) -> None:
    """Warn if fewer known devices may serve the new task than its rounds need."""
    found, task = answer["known_devices"], answer["task"]
    if found < (least := task["settings"]["minimum"]):
        share = f" in its share of the experiment {task['experiment']}" if task["experiment"] else ""
        lack = f"known devices{share}: {found}, and a round needs {least}"
        remedy = "its rounds are abandoned until more come; enrol devices, or give a larger share or a smaller minimum"
        click.echo(f"nightjar-coordinator: warning: {lack}; {remedy}", err=True)


def _parsed(pair: str) -> dict[str, Any]:
    """Parse ``a.b=1`` into nested tables; a value that is not valid TOML is taken as plain text."""
    name, sign, value = pair.partition("=")
    if not sign or not name:
        msg = f"--set: expected NAME=VALUE, such as plan.learning_rate=0.5, got {pair!r}"
        raise ConfigError(msg)
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    for part in reversed(name.split(".")):
        parsed = {part: parsed}
    nested: dict[str, Any] = parsed
    return nested


def _lay_over(table: dict[str, Any], other: dict[str, Any]) -> None:
    """Merge other settings into a table, recursively; the others take precedence."""
    for name, value in other.items():
        if isinstance(value, dict):
            below = table.setdefault(name, {})
            if isinstance(below, dict):
                _lay_over(below, value)
                continue
        below = table.get(name)
        if isinstance(value, str) and isinstance(below, dict) and "name" in below:
            below["name"] = value  # a choice by its name alone, such as strategy=fedadam
            continue
        table[name] = value
