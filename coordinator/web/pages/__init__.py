"""The dashboard: pages rendered on the server; one small script keeps them live, and they work without it.

There is one module per kind of page. This package registers them, and adds the filters and variables that every
template uses. Pages use only queries that :mod:`nightjar.coordinator.storage.reading` keeps cheap.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Flask, g
from flask_limiter import Limiter
from markupsafe import Markup

from nightjar.coordinator.access import ANYBODY, Role
from nightjar.coordinator.views import words
from nightjar.coordinator.web.live import Pulse, add_live
from nightjar.coordinator.web.pages import audit, devices, enrolments, models, overview, releases, rounds, tasks, tokens
from nightjar.coordinator.web.pages.first_phone import first_phone
from nightjar.coordinator.web.pages.refused import add_refused, page_of_form
from nightjar.coordinator.web.ports import Site

_FILTERS: tuple[Callable[..., str], ...] = (
    words.si_bytes,
    words.percent,
    words.points,
    words.nats,
    words.duration,
    words.utc,
    words.clock,
    words.thousands,
    words.in_words,
)

_HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>")
_CELL = re.compile(r"<td\b(?=([^>]*>\s*-?\s*</td>)?)")
"""A cell; group 1 matches if there is nothing in it."""


def labelled(table: Markup) -> Markup:
    """A table whose cells name their column, for phones, where a row is a card; empty cells are marked.

    >>> str(labelled(Markup('<thead><tr><th>Loss</th></tr></thead><tbody><tr><td>-</td></tr></tbody>')))[-51:]
    '<td data-label="Loss" data-none>-</td></tr></tbody>'
    """
    head, end, body = str(table).partition("</thead>")
    names = _HEADING.findall(head)

    def row(cells: str) -> str:
        names_left = iter(names)
        return _CELL.sub(lambda m: f'<td data-label="{next(names_left)}"{" data-none" if m[1] else ""}', cells)

    return Markup(head + end + "</tr>".join(map(row, body.split("</tr>"))))  # noqa: S704 - escaped by the template


def add_pages(app: Flask, site: Site, pulse: Pulse, limiter: Limiter) -> None:
    """Add the pages to the application."""
    blueprint = Blueprint("pages", __name__)
    overview.add_overview(blueprint, site)
    rounds.add_rounds(blueprint, site)
    devices.add_devices(blueprint, site)
    models.add_models(blueprint, site)
    releases.add_releases(blueprint, site)
    tasks.add_tasks(blueprint, site)
    enrolments.add_enrolments(blueprint, site)
    audit.add_audit(blueprint, site)
    tokens.add_tokens(blueprint, site, limiter)
    add_live(blueprint, pulse)
    app.register_blueprint(blueprint)
    add_refused(app)
    for each in (*_FILTERS, labelled):
        app.jinja_env.filters[each.__name__] = each
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True

    @app.context_processor
    def everywhere() -> dict[str, Any]:
        caller = g.get("caller", ANYBODY)
        issuer = site.ports.issuer
        may_operate = caller.role is not None and caller.role.may(Role.OPERATOR)
        return {
            "population": site.ports.config.population,
            "caller": caller,
            "logged_in": caller.role is not None,  # "caller" means another thing in a macro
            "may_operate": may_operate,
            "to_let_in": issuer.register.waiting() if issuer is not None and may_operate else 0,
            "may_administer": caller.role is not None and caller.role.may(Role.ADMIN),
            "revision": pulse.revision(),
            "now_s": site.ports.clock.now_s(),
            "here_url": page_of_form(),
            "enrols_devices": issuer is not None,
            "first_phone": lambda: first_phone(site.ports.config),
        }
