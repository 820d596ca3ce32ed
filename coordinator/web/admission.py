"""Admission control: identifies the caller of every request, and checks whether the caller may use the view.

Devices fetch artifacts and the metadata of releases, with their certificate if TLS is on (docs/enrolment.md), and
supervisors query our health. Everything else needs a token, unless ``public_reading`` opens it for reading. Unless
set, it does so on the loopback address, for processes of the service's own user and of root. A browser
can prompt for the token (HTTP Basic: any name, the token as the password). Commands need none
(:mod:`nightjar.coordinator.control_socket`).
"""

from __future__ import annotations

import http
import math
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from flask import Flask, Request, Response, abort, g, request, session
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from werkzeug.datastructures import Authorization

from nightjar.coordinator.access import ANYBODY, Caller, Role, caller, fingerprint
from nightjar.coordinator.enrolment.standing import said_to_device
from nightjar.coordinator.rate_limits import REQUEST_COST
from nightjar.coordinator.tls.files import names_of
from nightjar.coordinator.tls.front import SERIAL
from nightjar.coordinator.web import ROOT
from nightjar.coordinator.web.documents import Problem
from nightjar.coordinator.web.ports import WebPorts
from nightjar.models.signed_programs import PROGRAMS_PATH
from nightjar.wire.addresses import is_address, is_loopback, network_of
from nightjar.wire.releases import METADATA_PATH

NOT_FOR_PEOPLE = (ROOT, "/api/", "/metrics", "/docs/", "/artifacts/", PROGRAMS_PATH, METADATA_PATH, "/healthz")
"""Path prefixes below which no HTML page is served, not even for an error."""
SESSION_TOKEN = "token"  # noqa: S105 - the name of a field
"""Key in the cookie of a logged-in browser: the hash of its token."""
OPEN_TO_ALL = frozenset({"health", "static"})
CHANGES_NOTHING = frozenset({"pages.log_in", "pages.log_out"})
"""Forms that change only the browser's cookie."""
FETCHED = frozenset({"artifact", "signed_program", "release_metadata"})
"""What devices fetch."""
MOST_BODY_BYTES = 1 << 16
REFUSALS_PER_MINUTE = 30
"""Rate limit per address over all views. It only spares the log and the database: a token has 256 random bits."""

MAY_SEE = "may_see"
"""Key in the application's extensions: whether the sender of this request may see the page of a view."""

COMMAND_OF = "nightjar.command_of"
"""Key in a request's environment, set only on the socket for commands: the user whose command asks."""

_View = TypeVar("_View", bound=Callable[..., Any])


def needs(role: Role) -> Callable[[_View], _View]:
    """Declare which role a view needs; an undeclared view needs a viewer's."""

    def mark(view: _View) -> _View:
        view.needs = role  # type: ignore[attr-defined]
        return view

    return mark


def for_devices(view: _View) -> _View:
    """Declare that a view is for devices, which present their certificate."""
    view.for_devices = True  # type: ignore[attr-defined]
    return view


def open_to_all(view: _View) -> _View:
    """Declare that a view is open to all callers: it checks for itself whom it serves."""
    view.open_to_all = True  # type: ignore[attr-defined]
    return view


def add_admission(app: Flask, ports: WebPorts) -> Limiter:
    """Enforce roles, and rate-limit callers that are refused too often.

    Returns:
        The limiter; views may add their own limits.
    """
    app.config["MAX_CONTENT_LENGTH"] = MOST_BODY_BYTES
    names = frozenset(name.lower() for name in names_of(ports.config))

    def marked(mark: str) -> Any:
        return getattr(app.view_functions.get(request.endpoint or ""), mark, None)

    def is_open() -> bool:
        return request.endpoint in OPEN_TO_ALL or bool(marked("open_to_all"))

    def may_fetch() -> bool:
        return request.endpoint in FETCHED and (not ports.config.tls or g.device is not None)

    @app.before_request
    def identify() -> None:
        g.caller, g.device, g.serial = ANYBODY, None, request.environ.get(SERIAL, "")
        if is_open() or may_fetch():
            return
        operator = request.environ.get(COMMAND_OF)
        if operator is not None:
            g.caller = Caller(operator, Role.ADMIN)
            return
        now_s = ports.clock.now_s()
        characters = _presented(request.authorization)
        sha256 = session.get(SESSION_TOKEN) if characters is None else fingerprint(characters)
        if sha256 is not None:
            g.caller = caller(ports.tokens.find(sha256), now_s)
        elif g.serial and ports.issuer is not None:
            g.device = ports.issuer.register.seen(g.serial, now_s)

    # Registered between identify and admit, so that the limit is checked before a request is refused.
    limiter = Limiter(
        client_network,
        app=app,
        storage_uri="memory://",
        default_limits=[f"{REFUSALS_PER_MINUTE}/minute"],
        default_limits_deduct_when=lambda response: response.status_code in {401, 403},
        default_limits_exempt_when=is_open,
    )

    @limiter.request_filter
    def is_never_refused() -> bool:
        """Whether a request skips the limiter: the most frequent requests are never refused."""
        return request.endpoint in OPEN_TO_ALL or may_fetch()

    @app.before_request
    def admit() -> Response | None:
        return flooding() or refused() or only_leader() or _no_json()

    def flooding() -> Response | None:
        if g.device is None or ports.limits is None or ports.limits.admits(g.device, REQUEST_COST):
            return None
        wait_s = math.ceil(ports.limits.remaining_s(g.device))
        answer = problem(429, f"{g.device} sent more than its rate limit; ask again in {wait_s} s", code="flood")
        answer.headers["Retry-After"] = str(wait_s)
        return answer

    def only_leader() -> Response | None:
        """Refuse changes on a host that does not lead; a proxy then asks the next host (docs/deploying.md)."""
        if request.method in {"GET", "HEAD", "OPTIONS"} or request.endpoint in CHANGES_NOTHING:
            return None
        leader = ports.leader()
        if not leader:
            return None
        detail = f"only {leader} makes changes now, because it leads; ask there"
        return abort(503, detail) if wants_page() else problem(503, detail)

    def refused() -> Response | None:
        if is_open():
            return None
        if may_fetch():
            return None if ports.config.proxied or g.device is not None else _foreign_name(names)
        if marked("for_devices"):
            return None if g.device is not None else unknown_device()
        wanted = marked("needs") or Role.VIEWER
        if wanted is Role.VIEWER and request.authorization is None and may_read():
            return _foreign_name(names)
        return _refusal(g.caller, wanted)

    def may_see(view: Callable[..., Any]) -> bool:
        """Whether the sender of this request may see a page, which is not the one that was asked for."""
        wanted, asks = getattr(view, "needs", Role.VIEWER), g.get("caller", ANYBODY)
        if wanted is Role.VIEWER and request.authorization is None and may_read():
            return _is_our_name(names)
        return asks.role is not None and asks.role.may(wanted)

    app.extensions[MAY_SEE] = may_see

    def may_read() -> bool:
        """Whether this request may read without a token."""
        return ports.public_reading and (not ports.reading_by_user or ports.local_user(request.environ))

    def unknown_device() -> Response:
        if not g.serial or ports.issuer is None:
            return problem(401, "show the certificate of a device")
        standing = ports.issuer.register.standing_of_serial(g.serial)
        return problem(403, said_to_device(standing), code="blocked" if standing.blocked else "revoked")

    @app.before_request
    def from_here() -> None:
        if request.method == "POST" and wants_page() and not is_ours(request):
            abort(403, "this form was not sent from a page of this coordinator; open its page and send it there")

    return limiter


def client_network() -> str:
    """The key of a request's rate limits: its address, or for IPv6 the network that one client can choose from."""
    address = get_remote_address()
    return network_of(address) if is_address(address) else address


def problem(status: int, detail: str, code: str = "") -> Response:
    """A problem document."""
    body = msgspec.json.encode(Problem(title=http.HTTPStatus(status).phrase, status=status, detail=detail, code=code))
    return Response(body, status, content_type="application/problem+json")


def _refusal(asks: Caller, wanted: Role) -> Response | None:
    if asks.role is None:
        if wants_page():
            g.wanted = wanted
            abort(401, f"this page takes a token with the role {wanted.value}")
        refused = problem(401, "give a token that is known and not too old, as 'Authorization: Bearer nj_...'")
        refused.headers["WWW-Authenticate"] = 'Bearer realm="nightjar"'
        return refused
    if not asks.role.may(wanted):
        detail = f"this takes the role {wanted.value}; the token {asks.name} has {asks.role.value}"
        return abort(403, detail) if wants_page() else problem(403, detail)
    return None


def _no_json() -> Response | None:
    if request.method == "POST" and request.path.startswith(ROOT):
        if request.mimetype != "application/json":
            # This also keeps pages of other sites from posting with the browser's cookie.
            return problem(415, "send a JSON document, with 'Content-Type: application/json'")
        if not isinstance(request.get_json(silent=True), dict):
            return problem(422, "the body is no JSON object; send {} where there is nothing to say")
    return None


def _foreign_name(names: frozenset[str]) -> Response | None:
    """Refuse a request whose host name is not ours: a page may have pointed its own name here (DNS rebinding)."""
    if _is_our_name(names):
        return None
    name = urlsplit(f"//{request.host}").hostname or ""
    detail = f"this coordinator is not called {name[:64]}; give the name in enrolment.names, or ask by its address"
    return abort(421, detail) if wants_page() else problem(421, detail)


def _is_our_name(names: frozenset[str]) -> bool:
    name = urlsplit(f"//{request.host}").hostname or ""
    return name in names or is_address(name) or is_loopback(name)


def wants_page() -> bool:
    """Whether the request is for an HTML page, for a person."""
    return not request.path.startswith(NOT_FOR_PEOPLE)


def is_ours(asked: Request) -> bool:
    """Whether a form was sent from one of our pages.

    Source: Fetch Metadata Request Headers, W3C working draft; RFC 6454 for ``Origin``.
    """
    site = asked.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = asked.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc == asked.host


def _presented(authorization: Authorization | None) -> str | None:
    """The token in a request's header; None if there is none."""
    if authorization is None:
        return None
    if authorization.type == "bearer":
        return authorization.token
    return authorization.password if authorization.type == "basic" else None
