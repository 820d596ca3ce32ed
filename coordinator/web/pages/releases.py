"""The page of agent releases: how far each is, how its devices fare, and the buttons to change that."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Blueprint, redirect, render_template, url_for
from msgspec import Meta
from werkzeug.wrappers import Response

from nightjar.coordinator.access import Role
from nightjar.coordinator.tasks.operations import ChangeRelease, Reason, ReleaseAction
from nightjar.coordinator.views.rows import release_views
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.driver_calls import operate
from nightjar.coordinator.web.pages.refused import form_on
from nightjar.coordinator.web.ports import Site

CHOICES = {
    "candidate": (ReleaseAction.START,),
    "canary": (ReleaseAction.START, ReleaseAction.PAUSE, ReleaseAction.PROMOTE, ReleaseAction.ROLLBACK),
    "current": (ReleaseAction.ROLLBACK,),
}
"""Stage -> what can be done."""


class ReleaseForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a release, as the form sends it."""

    action: ReleaseAction
    reason: Reason
    percent: Annotated[float, Meta(gt=0, le=100)] = 5.0
    labels: request_parsing.Labels = ""


def add_releases(blueprint: Blueprint, site: Site) -> None:
    """Add the page of releases."""
    ports = site.ports

    @blueprint.get("/releases")
    @needs(Role.VIEWER)
    def releases() -> str:
        with ports.repository.transaction() as view:
            rows = release_views(view, ports.clock.now_s())
        return render_template("releases.html", releases=rows, choices=CHOICES)

    @blueprint.post("/releases/<version>")
    @needs(Role.OPERATOR)
    @form_on("releases")
    def change_release(version: str) -> Response:
        asked = request_parsing.form(ReleaseForm)
        if asked.action is ReleaseAction.ROLLBACK:
            request_parsing.confirmed()
        labels = tuple(asked.labels.split())
        operate(ports, ChangeRelease(version, asked.action, asked.reason, asked.percent / 100, labels))
        return redirect(url_for("pages.releases"), 303)
