"""``/api/v1/tasks``: routes to read, create, pause, resume and stop tasks."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import abort, request

from nightjar.coordinator.tasks.operations import CreateTask, PauseTask, ResumeTask, StopTask
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.views.tasks import TaskDetail, known_devices, task_detail, task_rows
from nightjar.coordinator.web import documents as docs
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.answers import Api
from nightjar.coordinator.web.driver_calls import change, operate
from nightjar.coordinator.web.ports import WebPorts
from nightjar.host.value_faults import did_you_mean
from nightjar.wire.identifiers import Sha256


def add_task_routes(api: Api, ports: WebPorts) -> None:
    """Add the routes of tasks to the API."""

    def known(name: str) -> str:
        with ports.repository.transaction() as view:
            request_parsing.found(view.task(name), f"task {name[:64]}")
        return name

    @api.look("/tasks", docs.Tasks)
    def tasks() -> docs.Tasks:
        """List all tasks, in order of creation."""
        with ports.repository.transaction() as view:
            return docs.Tasks(task_rows(view, ports.config.task.name))

    @api.look("/tasks/<name>", TaskDetail, 404)
    def one_task(name: str) -> TaskDetail:
        """Show a task with its settings and its newest rounds."""
        with ports.repository.transaction() as view:
            record = request_parsing.found(view.task(name), f"task {name[:64]}")
            return task_detail(view, record, ports.config.task.name, ports.clock.now_s())

    @api.change("/tasks", 409, ok=docs.TaskCreated, status=201)
    def create_task(json: docs.TaskWanted) -> tuple[docs.TaskCreated, int]:
        """Create a task; its first round opens as soon as its schedule allows."""
        unknown = _unknown(request.get_json(), msgspec.to_builtins(json))
        if unknown:
            abort(422, f"there are no such settings: {'; '.join(unknown)[:500]}")
        settings = TaskSettings(**{name: getattr(json, name) for name in TaskSettings.__struct_fields__})
        manifest = None if json.manifest is None else Sha256(json.manifest)
        changed = operate(ports, CreateTask(settings, manifest, json.signed))
        with ports.repository.transaction() as view:
            record = request_parsing.found(view.task(json.name), f"task {json.name}")
            detail = task_detail(view, record, ports.config.task.name, ports.clock.now_s())
            return docs.TaskCreated(changed, detail, known_devices(view, record)), 201

    @api.change("/tasks/<name>/pause", 404, 409)
    def pause_task(name: str, json: docs.ReasonBody) -> docs.Changed:
        """Pause a task: it opens no new rounds; devices that have begun may finish."""
        return change(ports, PauseTask(known(name), json.reason))

    @api.change("/tasks/<name>/resume", 404, 409)
    def resume_task(name: str, json: docs.EmptyBody) -> docs.Changed:  # noqa: ARG001 - checked to be empty
        """Resume a task: it opens rounds again."""
        return change(ports, ResumeTask(known(name)))

    @api.change("/tasks/<name>/stop", 404, 409)
    def stop_task(name: str, json: docs.ReasonBody) -> docs.Changed:
        """Stop a task for good: it opens no more rounds; devices that have begun may finish."""
        return change(ports, StopTask(known(name), json.reason))


def _unknown(given: dict[str, Any], known: dict[str, Any], where: str = "") -> list[str]:
    """Names of unknown settings; if one were silently ignored, the caller would believe that it applies.

    >>> _unknown({"gaol": 2, "plan": {"x": 1}}, {"goal": 2, "plan": {"epochs": 1}})
    ["gaol (did you mean 'goal'?)", 'plan.x (expected one of epochs)']
    """
    names = [
        where + name + (f" ({hint.removeprefix('; ')})" if (hint := did_you_mean(name, list(known))) else "")
        for name in given
        if name not in known
    ]
    for name, value in given.items():
        if isinstance(value, dict) and isinstance(known.get(name), dict):
            names += _unknown(value, known[name], f"{where}{name}.")
    return names
