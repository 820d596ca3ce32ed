"""The list of versions with their recall, and the page of one: what made it, what it is made of, and who holds it."""

from __future__ import annotations

import msgspec
from flask import Blueprint, render_template

from coordinator.shell.web.access import Role
from coordinator.shell.web.admission import needs
from coordinator.shell.web.documents import Number
from coordinator.shell.web.pages import asking
from coordinator.shell.web.pages.site import Site


class VersionsAsked(msgspec.Struct, frozen=True):
    """Which versions."""

    before: Number | None = None


def add_models(blueprint: Blueprint, site: Site) -> None:
    """Give the pages those of models."""
    ports = site.ports

    @blueprint.get("/models")
    @needs(Role.VIEWER)
    def models() -> str:
        asked = asking.query(VersionsAsked)
        with ports.repository.transaction() as view:
            found = view.versions(asking.PAGE, asked.before)[::-1]
        last = found[-1].version if len(found) == asking.PAGE else None
        return render_template("models.html", versions=found, asked=asked, last=last, census=site.census.now())

    @blueprint.get("/models/<int:number>")
    @needs(Role.VIEWER)
    def one_model(number: int) -> str:
        with ports.repository.transaction() as view:
            record = view.version(asking.number(number, "version"))
            if record is None:
                asking.missing(f"version {number}")
            before = view.version(number - 1) if number else None
            current = view.current_version()
            rounds = [] if record.round is None else view.recent_rounds(1, record.round + 1)
        return render_template(
            "model.html",
            record=record,
            before=before,
            newest=current is not None and current.version == number,
            manifest=site.manifest(record.manifest),
            round=rounds[0] if rounds else None,
            census=site.census.now(),
            baselines=[each for each in (ports.config.task.baseline, ports.config.task.central) if each is not None],
        )
