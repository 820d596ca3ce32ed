"""Who changed what, when, from what to what."""

from __future__ import annotations

import msgspec
from flask import Blueprint, render_template

from coordinator.web.access import Role
from coordinator.web.admission import needs
from coordinator.web.documents import Number
from coordinator.web.pages import asking
from coordinator.web.pages.site import Site


class ChangesAsked(msgspec.Struct, frozen=True):
    """Which changes."""

    before: Number | None = None


def add_audit(blueprint: Blueprint, site: Site) -> None:
    """Give the pages the audit log."""
    ports = site.ports

    @blueprint.get("/audit")
    @needs(Role.OPERATOR)
    def audit() -> str:
        asked = asking.query(ChangesAsked)
        with ports.repository.transaction() as view:
            found = view.audit(asking.PAGE, asked.before)
        last = found[-1].number if len(found) == asking.PAGE else None
        return render_template("audit.html", entries=found, asked=asked, last=last)
