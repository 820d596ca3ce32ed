"""The command ``task``, and where its commands are."""

from __future__ import annotations

import click

from nightjar.coordinator.commands.options import LazyCommands

_ELSEWHERE = {
    "new_task": {"create": "create_task"},
    "tasks": {"list": "list_tasks", "show": "show_one", "pause": "pause", "resume": "resume", "stop": "stop"},
}


@click.group(cls=LazyCommands, elsewhere=_ELSEWHERE)
def task() -> None:
    """Tasks: create, list, show, pause, resume or stop them; the default name is the configuration's task."""
