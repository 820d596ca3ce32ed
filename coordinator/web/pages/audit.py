"""The audit page: who changed what, when, from which value to which."""

from __future__ import annotations

from flask import Blueprint, render_template

from nightjar.coordinator.access import Role
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.documents import Before
from nightjar.coordinator.web.ports import Site


def add_audit(blueprint: Blueprint, site: Site) -> None:
    """Add the audit page."""
    ports = site.ports

    @blueprint.get("/audit")
    @needs(Role.OPERATOR)
    def audit() -> str:
        asked = request_parsing.query(Before)
        with ports.repository.transaction() as view:
            entries = view.audit(request_parsing.PAGE, asked.before)
        last = entries[-1].number if len(entries) == request_parsing.PAGE else None
        return render_template("audit.html", entries=entries, asked=asked, last=last)
