"""Token pages: list, create and revoke tokens. A token's secret text is shown only once."""

from __future__ import annotations

from flask import Blueprint, abort, g, redirect, render_template, url_for
from werkzeug.wrappers import Response

from coordinator.tasks.schedule import DAY_S
from coordinator.web import asking
from coordinator.web.access import Role, new_token
from coordinator.web.admission import needs
from coordinator.web.documents import Nothing, TokenWanted
from coordinator.web.ports import Site


def add_tokens(blueprint: Blueprint, site: Site) -> None:
    """Add the token pages."""
    ports = site.ports

    @blueprint.get("/tokens")
    @needs(Role.ADMIN)
    def tokens() -> str:
        return render_template("tokens.html", tokens=ports.tokens.all(), roles=list(Role), made=None)

    @blueprint.post("/tokens")
    @needs(Role.ADMIN)
    def make_token() -> tuple[str, int]:
        wanted = asking.form(TokenWanted)
        characters, record = new_token(wanted.name, wanted.role, ports.clock.now_s(), wanted.days * DAY_S)
        if not ports.tokens.add(record, g.caller.name):
            abort(409, f"there is a token {wanted.name} already; revoke it first, or take another name")
        page = render_template(
            "tokens.html", tokens=ports.tokens.all(), roles=list(Role), made=record, characters=characters
        )
        return page, 201

    @blueprint.post("/tokens/<name>/revoke")
    @needs(Role.ADMIN)
    def revoke_token(name: str) -> Response:
        asking.form(Nothing)
        if not ports.tokens.remove(name, g.caller.name, ports.clock.now_s()):
            asking.missing(f"token {name[:64]}")
        return redirect(url_for("pages.tokens"), 303)
