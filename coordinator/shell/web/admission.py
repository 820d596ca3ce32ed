"""At the door of every request: who asks, and whether this view takes more than that.

Devices fetch artifacts by their hash and supervisors ask for our health; everything else is for people with a token,
or for everybody where ``public_reading`` says so. A browser asks for the token by itself (HTTP Basic: any name,
the token as the password).
"""

from __future__ import annotations

import http
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from flask import Flask, Response, g, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from coordinator.shell.web.access import ANYBODY, Caller, Role, caller, fingerprint, presented
from coordinator.shell.web.documents import Problem
from coordinator.shell.web.ports import WebPorts

ROOT = "/api/v1"
"""What lies below it answers with JSON, also when it refuses."""
OPEN_TO_ALL = frozenset({"artifact", "health", "static"})
MOST_BODY_BYTES = 1 << 16
REFUSALS_PER_MINUTE = 30
"""Of one address, over all views; a token has 256 random bits, so this only keeps the log and the database calm."""

_View = TypeVar("_View", bound=Callable[..., Any])


def needs(role: Role) -> Callable[[_View], _View]:
    """Say which role a view takes; one that says nothing takes a viewer's."""

    def mark(view: _View) -> _View:
        view.needs = role  # type: ignore[attr-defined]
        return view

    return mark


def add_admission(app: Flask, ports: WebPorts) -> Limiter:
    """See to it that nobody gets further than the role allows, or asks too often after being refused.

    Returns:
        The limiter; views may have limits of their own.
    """
    app.config["MAX_CONTENT_LENGTH"] = MOST_BODY_BYTES

    @app.before_request
    def identify() -> None:
        g.caller = ANYBODY
        characters = presented(request.authorization)
        if characters is not None and request.endpoint not in OPEN_TO_ALL:
            g.caller = caller(ports.tokens.find(fingerprint(characters)), ports.clock.now_s())

    # Between the two: who is refused must have been counted before.
    limiter = Limiter(
        get_remote_address,
        app=app,
        storage_uri="memory://",
        default_limits=[f"{REFUSALS_PER_MINUTE}/minute"],
        default_limits_deduct_when=lambda response: response.status_code in {401, 403},
        default_limits_exempt_when=lambda: request.endpoint in OPEN_TO_ALL,
    )

    @app.before_request
    def admit() -> Response | None:
        if request.endpoint in OPEN_TO_ALL:
            return None
        wanted = getattr(app.view_functions.get(request.endpoint or ""), "needs", Role.VIEWER)
        if wanted is Role.VIEWER and request.authorization is None and ports.public_reading:
            return None
        return _refusal(g.caller, wanted)

    return limiter


def problem(status: int, detail: str) -> Response:
    """A problem document."""
    body = msgspec.json.encode(Problem(title=http.HTTPStatus(status).phrase, status=status, detail=detail))
    return Response(body, status, content_type="application/problem+json")


def _refusal(asks: Caller, wanted: Role) -> Response | None:
    if asks.role is None:
        refused = problem(401, "give a token that is known and not too old, as 'Authorization: Bearer nj_...'")
        # The browser's own question only where a page would be shown: a script wants an answer.
        schemes = ["Bearer"] if request.path.startswith(ROOT) else ["Bearer", "Basic"]
        refused.headers["WWW-Authenticate"] = ", ".join(f'{scheme} realm="nightjar"' for scheme in schemes)
        return refused
    if not asks.role.may(wanted):
        return problem(403, f"this takes the role {wanted.value}; the token {asks.name} has {asks.role.value}")
    if request.method == "POST" and request.mimetype != "application/json":
        # Also what keeps pages of other sites from posting with the browser's stored token.
        return problem(415, "send a JSON document, with 'Content-Type: application/json'")
    return None
