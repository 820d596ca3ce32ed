"""The command ``task``: creates, lists, shows, pauses, resumes and stops the tasks of a population."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click
import msgspec

from nightjar.coordinator.commands.console import flat, show, when
from nightjar.coordinator.commands.options import answer_options
from nightjar.coordinator.commands.privacy import planned
from nightjar.coordinator.commands.service_call import ask_service, change, reason_option
from nightjar.coordinator.commands.stored import opened, opened_artifacts
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.learning.privacy.ledger import explain
from nightjar.coordinator.rounds.admission import in_slot, unsuited
from nightjar.coordinator.storage.model_folder import import_model
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.views.tasks import TaskDetail, task_detail, task_rows
from nightjar.coordinator.views.words import percent
from nightjar.host.configuration import read_toml
from nightjar.wire.errors import ConfigError
from nightjar.wire.messages import Work

_COLUMNS = ("task", "kind", "status", "committed", "version", "best top-1", "round", "experiment", "reason")
_LEASES_AT_ONCE = 1000
_OF_ITS_OWN = ("target_top1", "no_progress_rounds", "variant", "source")
"""Settings of the configuration's task that a new task does not inherit."""

name_argument = click.argument("name", required=False)


@click.group()
def task() -> None:
    """Tasks: create, list, show, pause, resume or stop them; the default name is the configuration's task."""


@task.command("create")
@answer_options
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
    for line in _promised(wanted):
        click.echo(line, err=True)
    if model is not None:
        # Stored under its hash with the other artifacts; devices fetch it only if the task is created.
        with opened_artifacts(config) as artifacts:
            wanted["manifest"] = import_model(model, artifacts).sha256
    ask_service(config, "POST", "/tasks", wanted)
    _warn_of_too_few(config, name)
    _show_one(config, name, as_json=as_json)


@task.command("list")
@answer_options
def list_tasks(config: CoordinatorConfig, *, as_json: bool) -> None:
    """List all tasks, in order of creation."""
    with opened(config) as database, database.transaction() as view:
        rows = task_rows(view, config.task.name)
    cells = [
        (
            t.name,
            t.kind,
            t.status,
            t.committed,
            t.version,
            percent(t.best_top1),
            t.round,
            t.experiment or None,
            t.reason,
        )
        for t in rows
    ]
    show(rows, _COLUMNS, cells, as_json=as_json)


@task.command("show")
@answer_options
@name_argument
def show_task(config: CoordinatorConfig, name: str | None, *, as_json: bool) -> None:
    """Show one task with all its settings."""
    _show_one(config, name or config.task.name, as_json=as_json)


@task.command()
@answer_options
@name_argument
@reason_option
def pause(config: CoordinatorConfig, name: str | None, reason: str, *, as_json: bool) -> None:
    """Pause a task: it opens no new rounds; devices that have begun may finish."""
    _change(config, name, "pause", {"reason": reason}, as_json=as_json)


@task.command()
@answer_options
@name_argument
def resume(config: CoordinatorConfig, name: str | None, *, as_json: bool) -> None:
    """Resume a task: it opens rounds again."""
    _change(config, name, "resume", {}, as_json=as_json)


@task.command()
@answer_options
@click.argument("name")
@reason_option
def stop(config: CoordinatorConfig, name: str, reason: str, *, as_json: bool) -> None:
    """Stop a task for good: it opens no more rounds; devices that have begun may finish."""
    _change(config, name, "stop", {"reason": reason}, as_json=as_json)


def _promised(wanted: dict[str, Any]) -> list[str]:
    """What the privacy of a task to be created would be, in words; the service says what is wrong with its settings."""
    try:
        settings = msgspec.convert(wanted, TaskSettings, strict=False)
    except msgspec.ValidationError:
        return []
    ledger = planned(settings) if settings.rounds else None
    return [] if ledger is None else explain(ledger)


def _warn_of_too_few(config: CoordinatorConfig, name: str) -> None:
    """Warn if fewer known devices may serve a task than its rounds need."""
    with opened(config) as database, database.transaction() as view:
        record = view.task(name)
        if record is None:
            return
        settings, found, after = record.settings, 0, ""
        while found < settings.minimum and (leases := view.leases_after(_LEASES_AT_ONCE, after)):
            fit = (lease for lease in leases if not unsuited(lease, settings.eligibility))
            found += sum(in_slot(settings.variant, record.state.slot, lease.device) for lease in fit)
            after = leases[-1].device
    if found < settings.minimum:
        share = f" in its share of the experiment {settings.variant.experiment}" if settings.variant.experiment else ""
        lack = f"known devices{share}: {found}, and a round needs {settings.minimum}"
        remedy = "its rounds are abandoned until more come; enrol devices, or give a larger share or a smaller minimum"
        click.echo(f"nightjar-coordinator: warning: {lack}; {remedy}", err=True)


def _change(config: CoordinatorConfig, name: str | None, action: str, body: object, *, as_json: bool) -> None:
    """Ask the service to change the status of a task, and print its status."""
    name = name or config.task.name

    def status() -> str:
        with opened(config) as database, database.transaction() as view:
            row = next(each for each in task_rows(view, config.task.name) if each.name == name)
        return f"the task {row.name} is {row.status}{f': {row.reason}' if row.reason else ''}"

    change(config, f"/tasks/{name}/{action}", body, status, as_json=as_json)


def _show_one(config: CoordinatorConfig, name: str, *, as_json: bool) -> None:
    with opened(config) as database, database.transaction() as view:
        detail = task_detail(view, name, config.task.name, WallClock().now_s())
    if detail is None:
        msg = f"there is no task {name}; 'task list' shows them"
        raise ConfigError(msg)
    settings = msgspec.to_builtins(detail.settings)
    for known in ("name", "kind"):
        settings.pop(known)
    cells = [(what, value) for what, value in _facts(detail) if value is not None]
    cells += [("privacy", line) for line in ([] if detail.ledger is None else explain(detail.ledger))]
    show(detail, ("what", "value"), [*cells, *flat(settings, "setting ")], as_json=as_json)


def _facts(task: TaskDetail) -> list[tuple[str, object]]:
    """How a task is, in words; None where there is nothing to say."""
    return [
        ("task", f"{task.name}, {task.kind}"),
        ("status", f"{task.status}: {task.reason}" if task.reason else task.status),
        ("created", when(task.created_s)),
        ("since", when(task.since_s) if task.since_s else None),
        ("committed rounds", f"{task.committed} of {task.rounds_wanted}" if task.rounds_wanted else task.committed),
        ("announced version", task.version),
        ("rounds without a gain", _patience(task)),
        ("best top-1", None if task.best_top1 is None else percent(task.best_top1)),
        ("open round", f"{task.round}, {task.phase}" if task.round is not None else None),
        ("newest rounds", ", ".join(str(row.number) for row in task.rounds) or None),
        ("experiment", f"{task.experiment}, {percent(task.share)} of its devices" if task.experiment else None),
    ]


def _patience(task: TaskDetail) -> str | None:
    """How many rounds have gained nothing, and how many may; None if the task never loses patience."""
    patience = task.settings.patience
    return f"{task.without_gain} of {patience}" if patience and task.kind == Work.TRAIN.value else None


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
