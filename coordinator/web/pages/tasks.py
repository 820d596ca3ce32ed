"""Task pages: the list, and each task's progress; create, pause, resume and stop a task."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Blueprint, redirect, render_template, url_for
from msgspec import Meta
from werkzeug.wrappers import Response

from nightjar.coordinator.access import Role
from nightjar.coordinator.learning.privacy.ledger import explain
from nightjar.coordinator.rounds.selection import lackers
from nightjar.coordinator.tasks.operations import CreateTask, PauseTask, ResumeTask, StopTask
from nightjar.coordinator.tasks.settings import Count, Name, TaskSettings
from nightjar.coordinator.views.tasks import task_row, task_rows
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.documents import EmptyBody, ReasonBody
from nightjar.coordinator.web.driver_calls import operate
from nightjar.coordinator.web.pages.refused import form_on
from nightjar.coordinator.web.ports import Site
from nightjar.models.manifest import KEYBOARD
from nightjar.models.task_types import usable
from nightjar.wire.codec.codecs import name_needed
from nightjar.wire.messages import Work

ROUNDS_SHOWN = 10


class TaskForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings in the form for a new task; all others have their defaults."""

    name: Name
    kind: Work
    rounds: Annotated[int, Meta(ge=0, le=2**31)]
    goal: Count
    minimum: Count


def add_tasks(blueprint: Blueprint, site: Site) -> None:
    """Add the task pages."""
    ports = site.ports

    @blueprint.get("/tasks")
    @needs(Role.VIEWER)
    def tasks() -> str:
        with ports.repository.transaction() as view:
            rows = task_rows(view, ports.config.task.name)
        return render_template("tasks.html", tasks=rows, proposed=ports.config.task)

    @blueprint.get("/tasks/<name>")
    @needs(Role.VIEWER)
    def one_task(name: str) -> str:
        with ports.repository.transaction() as view:
            record = request_parsing.found(view.task(name), f"task {name[:64]}")
            row = task_row(view, record, ports.config.task.name)
            rounds = view.recent_rounds(ROUNDS_SHOWN, task=name)[::-1]
            made = view.versions_made_in(rounds)
            base = None if row.version is None else view.version(row.version)
        kind = KEYBOARD if base is None or base.pruned_s is not None else site.manifest(base.manifest).task_type
        ledger = record.ledger()
        privacy = [] if ledger is None else explain(ledger)
        shown = {"settings": record.settings, "rounds": rounds, "made": made, "privacy": privacy}
        figures = ", ".join(usable()[kind].figures) if kind in usable() else "no plug-in here"
        lack = lackers(
            kind,
            name_needed(record.settings.codec.name, summed=record.settings.privacy.summed),
            site.census.now().offers,
        )
        shown |= {"task_type": f"{kind}: {figures}", "lack": lack}
        return render_template("task.html", task=row, **shown)

    @blueprint.post("/tasks")
    @needs(Role.OPERATOR)
    @form_on("tasks")
    def create() -> Response:
        wanted = request_parsing.form(TaskForm)
        operate(ports, CreateTask(TaskSettings(**msgspec.structs.asdict(wanted))))
        return redirect(url_for("pages.one_task", name=wanted.name), 303)

    @blueprint.post("/tasks/<name>/pause")
    @needs(Role.OPERATOR)
    @form_on("one_task")
    def pause(name: str) -> Response:
        operate(ports, PauseTask(name, request_parsing.form(ReasonBody).reason))
        return redirect(url_for("pages.one_task", name=name), 303)

    @blueprint.post("/tasks/<name>/resume")
    @needs(Role.OPERATOR)
    @form_on("one_task")
    def resume(name: str) -> Response:
        request_parsing.form(EmptyBody)
        operate(ports, ResumeTask(name))
        return redirect(url_for("pages.one_task", name=name), 303)

    @blueprint.post("/tasks/<name>/stop")
    @needs(Role.OPERATOR)
    @form_on("one_task")
    def stop(name: str) -> Response:
        operate(ports, StopTask(name, request_parsing.confirmed_form(ReasonBody).reason))
        return redirect(url_for("pages.one_task", name=name), 303)
