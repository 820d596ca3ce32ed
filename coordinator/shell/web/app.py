"""The Flask application: pages, artifacts and figures. It reads; what changes something is :mod:`.api`, by the driver.

No cookies, no scripts or styles from elsewhere. Only artifacts are served by hash; reports and optimizer states lie in
another store that this module does not know.
"""

from __future__ import annotations

import functools

import msgspec
from flask import Flask, Response, abort, render_template, request, send_file
from werkzeug.exceptions import HTTPException

from coordinator.inbox import ArtifactServed
from coordinator.shell.web import metrics
from coordinator.shell.web.admission import ROOT, add_admission, problem
from coordinator.shell.web.api import add_api
from coordinator.shell.web.curve import recall_curve
from coordinator.shell.web.ports import WebPorts
from coordinator.shell.web.state import State, build_state, find_round, round_detail
from models.manifest import Manifest
from wire.errors import RemoteProtocolError

ARTIFACT_AGE_S = 365 * 86400
"""An artifact's bytes never change, so whoever has it may keep it for a year (RFC 9111's customary most)."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


def create_app(ports: WebPorts) -> Flask:
    """The application, ready for any WSGI server."""
    app = Flask(__name__)
    started_s = ports.clock.now_s()
    read_manifest = functools.lru_cache(maxsize=8)(lambda sha256: Manifest.decode(ports.artifacts.get(sha256)))

    def current_state() -> State:
        now_s = ports.clock.now_s()
        with ports.repository.transaction() as view:
            version = view.current_version()
            if version is None:
                abort(503, "no model was imported yet")
            manifest = read_manifest(version.manifest)
            return build_state(view, ports.config, manifest, ports.broker, now_s, now_s - started_s)

    @app.get("/")
    def status_page() -> str:
        state = current_state()
        return render_template("status.html", state=state, troubles=ports.troubles(), curve=recall_curve(state))

    @app.get("/api/state")
    def api_state() -> Response:
        return _json(current_state())

    @app.get("/api/rounds/<int:number>")
    def api_round(number: int) -> Response:
        with ports.repository.transaction() as view:
            found = find_round(view, number)
        if found is None:
            abort(404, f"there is no round {number}")
        return _json(round_detail(found, ports.clock.now_s()))

    @app.get("/healthz")
    def health() -> tuple[Response, int]:
        troubles = ports.troubles()
        return _json({"ok": not troubles, "reasons": troubles}), 503 if troubles else 200

    @app.get("/metrics")
    def prometheus() -> Response:
        return Response(metrics.render(ports.repository, ports.troubles()), content_type=metrics.CONTENT_TYPE)

    @app.get("/artifacts/<sha256>")
    def artifact(sha256: str) -> Response:
        try:
            path = ports.artifacts.path(sha256)
        except RemoteProtocolError as error:
            abort(404, str(error))
        if not path.is_file():
            abort(404, f"there is no artifact {sha256}; fetch the current manifest again")
        response = send_file(
            path, mimetype="application/octet-stream", etag=sha256, conditional=True, max_age=ARTIFACT_AGE_S
        )
        response.cache_control.public = True
        response.cache_control.immutable = True
        if request.method == "GET" and response.status_code in {200, 206}:
            ports.post(ArtifactServed(response.content_length or 0))
        return response

    @app.after_request
    def protect(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        if "Cache-Control" not in response.headers:
            response.headers["Cache-Control"] = "no-store"
        return response

    @app.errorhandler(HTTPException)
    def explain(error: HTTPException) -> Response:
        if request.path.startswith(ROOT) and error.code is not None:
            return problem(error.code, error.description or "")
        response = error.get_response()
        if isinstance(response, Response):
            response.set_data(f"{error.code} {error.name}: {error.description}\n")
            response.content_type = "text/plain; charset=utf-8"
            return response
        return Response(f"{error.code} {error.name}\n", error.code, content_type="text/plain; charset=utf-8")

    add_api(app, ports, add_admission(app, ports))
    app.jinja_env.filters["si_bytes"] = si_bytes
    app.jinja_env.filters["percent"] = percent
    app.jinja_env.filters["duration"] = duration
    return app


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), content_type="application/json")


def si_bytes(count: float | None) -> str:
    """A number of bytes for people.

    >>> si_bytes(950), si_bytes(5_649_000), si_bytes(None)
    ('950 B', '5.65 MB', '-')
    """
    if count is None:
        return "-"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def percent(share: float | None) -> str:
    """A share for people.

    >>> percent(0.1234), percent(None)
    ('12.3 %', '-')
    """
    return "-" if share is None else f"{100 * share:.1f} %"


def duration(seconds: float | None) -> str:
    """A time span for people.

    >>> duration(3.4), duration(200), duration(9000), duration(None)
    ('3.4 s', '3 min 20 s', '2 h 30 min', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
