"""The commands of ``task`` about tasks that there are: lists, shows, pauses, resumes and stops them."""

from __future__ import annotations

import click
import msgspec

from nightjar.coordinator.commands.console import show
from nightjar.coordinator.commands.options import answer_options, checked_as, irreversible
from nightjar.coordinator.commands.service_call import change, reason_option
from nightjar.coordinator.commands.stored import opened
from nightjar.coordinator.commands.task_facts import show_task
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.tasks.settings import Name
from nightjar.coordinator.views.tasks import task_detail, task_rows
from nightjar.coordinator.views.words import percent
from nightjar.wire.errors import ConfigError

_COLUMNS = ("task", "kind", "status", "committed", "version", "best top-1", "round", "experiment", "reason")

name_argument = click.argument("name", required=False, callback=checked_as(Name))
"""A task; the configuration's if it is left out, not if it is blank: a script may name a variable that is not set."""


@click.command("list")
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


@click.command("show")
@answer_options
@name_argument
def show_one(config: CoordinatorConfig, name: str | None, *, as_json: bool) -> None:
    """Show one task with all its settings."""
    name = name or config.task.name
    with opened(config) as database, database.transaction() as view:
        record = view.task(name)
        if record is None:
            msg = f"there is no task {name}; 'task list' shows them"
            raise ConfigError(msg)
        detail = task_detail(view, record, config.task.name, WallClock().now_s())
    show_task(msgspec.to_builtins(detail), as_json=as_json)


@click.command()
@answer_options
@name_argument
@reason_option
def pause(config: CoordinatorConfig, name: str | None, reason: str, *, as_json: bool) -> None:
    """Pause a task: it opens no new rounds; devices that have begun may finish."""
    _change(config, name, "pause", {"reason": reason}, as_json=as_json)


@click.command()
@answer_options
@name_argument
def resume(config: CoordinatorConfig, name: str | None, *, as_json: bool) -> None:
    """Resume a task: it opens rounds again."""
    _change(config, name, "resume", {}, as_json=as_json)


@click.command()
@answer_options
@click.argument("name", callback=checked_as(Name))
@reason_option
@irreversible("Stop the task {name} for good?")
def stop(config: CoordinatorConfig, name: str, reason: str, *, as_json: bool) -> None:
    """Stop a task for good: it opens no more rounds; devices that have begun may finish."""
    _change(config, name, "stop", {"reason": reason}, as_json=as_json)


def _change(config: CoordinatorConfig, name: str | None, action: str, body: object, *, as_json: bool) -> None:
    """Ask the service to change the status of a task, and print its status."""
    name = name or config.task.name

    def status() -> str:
        with opened(config) as database, database.transaction() as view:
            row = next(each for each in task_rows(view, config.task.name) if each.name == name)
        return f"the task {row.name} is {row.status}{f': {row.reason}' if row.reason else ''}"

    change(config, f"/tasks/{name}/{action}", body, status, as_json=as_json)
