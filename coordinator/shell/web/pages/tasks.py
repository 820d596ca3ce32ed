"""What is learned, and how it goes; pausing it, and going on."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response

from coordinator.operations import PauseTask, ResumeTask, StopTask
from coordinator.shell.web.access import Role
from coordinator.shell.web.admission import needs
from coordinator.shell.web.documents import Nothing, Why
from coordinator.shell.web.operating import operate
from coordinator.shell.web.pages import asking
from coordinator.shell.web.pages.site import Site
from coordinator.shell.web.task_views import task_detail, task_rows

ROUNDS_SHOWN = 10


def add_tasks(blueprint: Blueprint, site: Site) -> None:
    """Give the pages those of tasks."""
    ports = site.ports

    @blueprint.get("/tasks")
    @needs(Role.VIEWER)
    def tasks() -> str:
        with ports.repository.transaction() as view:
            found = task_rows(view, ports.config.task.name)
        return render_template("tasks.html", tasks=found)

    @blueprint.get("/tasks/<name>")
    @needs(Role.VIEWER)
    def one_task(name: str) -> str:
        with ports.repository.transaction() as view:
            found = task_detail(view, name, ports.config.task.name, ports.clock.now_s())
            rounds = view.recent_rounds(ROUNDS_SHOWN, task=name)[::-1]
            numbers = [each.version for each in rounds if each.version is not None]
            made = {number: view.version(number) for number in numbers}
        if found is None:
            asking.missing(f"task {name[:64]}")
        return render_template("task.html", task=found, settings=found.settings, rounds=rounds, made=made)

    @blueprint.post("/tasks/<name>/pause")
    @needs(Role.OPERATOR)
    def pause(name: str) -> Response:
        operate(ports, PauseTask(name, asking.form(Why).reason))
        return redirect(url_for("pages.one_task", name=name), 303)

    @blueprint.post("/tasks/<name>/resume")
    @needs(Role.OPERATOR)
    def resume(name: str) -> Response:
        asking.form(Nothing)
        operate(ports, ResumeTask(name))
        return redirect(url_for("pages.one_task", name=name), 303)

    @blueprint.post("/tasks/<name>/stop")
    @needs(Role.OPERATOR)
    def stop(name: str) -> Response:
        operate(ports, StopTask(name, asking.form(Why).reason))
        return redirect(url_for("pages.one_task", name=name), 303)
