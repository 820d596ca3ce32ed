"""Token pages: list, create and revoke tokens; and log in with one, so that the buttons on the pages work.

A token's secret text is shown only once. The login cookie holds the token's hash, signed with a secret key that this
process draws at its start. So a cookie survives neither a restart nor the end of its token, and cannot be forged from
the content of the database.
"""

from __future__ import annotations

from flask import Blueprint, abort, g, redirect, render_template, request, session, url_for
from flask_limiter import Limiter
from werkzeug.wrappers import Response

from nightjar.coordinator.access import Role, caller, fingerprint, new_token
from nightjar.coordinator.tasks.schedule import DAY_S
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import REFUSALS_PER_MINUTE, SESSION_TOKEN, needs, open_to_all
from nightjar.coordinator.web.documents import EmptyBody, TokenWanted
from nightjar.coordinator.web.pages.refused import form_on
from nightjar.coordinator.web.ports import Site


def add_tokens(blueprint: Blueprint, site: Site, limiter: Limiter) -> None:
    """Add the token pages, login and logout; failed logins are rate-limited."""
    ports = site.ports

    @blueprint.get("/tokens")
    @needs(Role.ADMIN)
    def tokens() -> str:
        return render_template("tokens.html", tokens=ports.tokens.all(), roles=list(Role), made=None)

    @blueprint.post("/tokens")
    @needs(Role.ADMIN)
    @form_on("tokens")
    def make_token() -> tuple[str, int]:
        wanted = request_parsing.form(TokenWanted)
        characters, record = new_token(wanted.name, wanted.role, ports.clock.now_s(), wanted.days * DAY_S)
        if not ports.tokens.add(record, g.caller.name):
            abort(409, f"there is a token {wanted.name} already; revoke it first, or take another name")
        page = render_template(
            "tokens.html", tokens=ports.tokens.all(), roles=list(Role), made=record, characters=characters
        )
        return page, 201

    @blueprint.post("/tokens/<name>/revoke")
    @needs(Role.ADMIN)
    @form_on("tokens")
    def revoke_token(name: str) -> Response:
        request_parsing.confirmed_form(EmptyBody)
        if not ports.tokens.remove(name, g.caller.name, ports.clock.now_s()):
            request_parsing.missing(f"token {name[:64]}")
        return redirect(url_for("pages.tokens"), 303)

    @blueprint.get("/login")
    @open_to_all
    def login() -> str:
        return render_template("login.html", back=_back(request.args.get("back", "")))

    @blueprint.post("/login")
    @open_to_all
    @limiter.limit(f"{REFUSALS_PER_MINUTE}/minute", deduct_when=lambda response: response.status_code == 401)
    def log_in() -> Response:
        sha256 = fingerprint(request.form.get("token", "").strip())
        if caller(ports.tokens.find(sha256), ports.clock.now_s()).role is None:
            abort(401, "this token is not known, or is too old")
        session[SESSION_TOKEN] = sha256
        return redirect(_back(request.form.get("back", "")), 303)

    @blueprint.post("/logout")
    @open_to_all
    def log_out() -> Response:
        session.clear()
        return redirect(url_for("pages.overview"), 303)


def _back(wanted: str) -> str:
    """Where to go after the login: always one of our pages, whatever the query asks for.

    >>> _back("/rounds?phase=abandoned"), _back("//elsewhere.example"), _back("https://elsewhere.example")
    ('/rounds?phase=abandoned', '/', '/')
    """
    ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if ours else "/"
