"""The Flask application: pages, artifacts and metrics. It only reads; changes go to the driver (:mod:`.operating`).

Pages load no scripts or styles from other hosts. Only artifacts are served by hash; reports and optimizer states are in
another store that this module cannot access.
"""

from __future__ import annotations

import functools
import secrets
from typing import cast

import msgspec
import structlog
from flask import Flask, Response, abort, render_template, request, send_file
from flask.sessions import SecureCookieSessionInterface
from werkzeug.exceptions import HTTPException, ServiceUnavailable

from nightjar.coordinator.config import BrokerKind, CoordinatorConfig
from nightjar.coordinator.records.inbox import ArtifactServed
from nightjar.coordinator.storage.census import FRESH_S, CensusTaker
from nightjar.coordinator.storage.release_metadata import MOST_METADATA_BYTES, PublishedReleases, ReleaseMetadata
from nightjar.coordinator.versions.releases import order_of
from nightjar.coordinator.web import ROOT, metrics
from nightjar.coordinator.web.admission import MOST_BODY_BYTES, add_admission, is_ours, problem, wants_page
from nightjar.coordinator.web.api import add_api
from nightjar.coordinator.web.live import Pulse
from nightjar.coordinator.web.pages import add_pages
from nightjar.coordinator.web.pages.refused import keep_for_login, page_of_form, shown_again
from nightjar.coordinator.web.ports import Site, WebPorts
from nightjar.host.files import read_file
from nightjar.models.manifest import Manifest
from nightjar.models.signed_programs import PROGRAMS_PATH
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.releases import METADATA_PATH

_log = structlog.get_logger("coordinator")

ARTIFACT_AGE_S = 365 * 86400
"""An artifact's bytes never change, so caches may keep it for a year (the customary maximum; RFC 9111)."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def create_app(ports: WebPorts, fresh_s: float = FRESH_S) -> Flask:
    """Create the application, for any WSGI server that has :data:`~.live.MOST_STREAMS` extra threads for streams."""
    app = Flask(__name__)
    app.secret_key = secrets.token_bytes(32)  # never on disk, so it cannot be stolen; a restart ends all logins
    app.config |= {"SESSION_COOKIE_NAME": "nightjar", "SESSION_COOKIE_SAMESITE": "Strict"}
    app.session_interface = _Cookie(ports.config)
    read_manifest = functools.lru_cache(maxsize=64)(lambda sha256: Manifest.decode(ports.artifacts.get(sha256)))
    census = CensusTaker(ports.repository, ports.clock, fresh_s, ports.distrust)
    site = Site(ports, census, read_manifest, ports.clock.now_s())
    metadata = ReleaseMetadata(ports.config.data_dir, ports.artifacts)
    pulse = Pulse(lambda: _pulse(ports))
    app.extensions |= {"census": census, "pulse": pulse}

    @app.get("/healthz")
    def health() -> tuple[Response, int]:
        troubles = ports.troubles()
        answer: dict[str, object] = {"ok": not troubles, "reasons": troubles}
        if leader := ports.leader():
            answer["leader"] = leader
        if disk := ports.disk():
            answer["disk"] = disk
        if warnings := ports.warnings():  # told in time; no reason yet to report the service as unhealthy
            answer["warnings"] = warnings
        if open_limits := ports.not_enforced():  # limits of the broker; no reason to report the service as unhealthy
            answer["not_enforced"] = open_limits
        if ports.config.broker.kind is BrokerKind.EXTERNAL:  # a check would end the session of the id's client
            answer["not_checked"] = ["client ids"]
        return Response(msgspec.json.encode(answer), content_type="application/json"), 503 if troubles else 200

    @app.get("/metrics")
    def prometheus() -> Response:
        expiring = 0
        if ports.issuer is not None:
            expiring = ports.issuer.register.expiring(ports.clock.now_s(), metrics.EXPIRES_SOON_S)
        task, troubles = ports.config.task.name, ports.troubles()
        page = metrics.render(
            ports.repository,
            task,
            troubles,
            census.now(),
            expiring,
            ports.disk(),
            leads=not ports.leader(),
            distrust=ports.distrust(),
        )
        return Response(page, content_type=metrics.CONTENT_TYPE)

    @app.get("/artifacts/<sha256>")
    def artifact(sha256: str) -> Response:
        try:
            path = ports.artifacts.find(sha256)
        except RemoteProtocolError as error:
            abort(404, str(error))
        if path is None:
            abort(404, f"there is no artifact {sha256}; fetch the current manifest again")
        response = send_file(path, mimetype="application/octet-stream", etag=sha256, conditional=True)
        response.headers["Cache-Control"] = f"public, max-age={ARTIFACT_AGE_S}, immutable"
        if request.method == "GET" and response.status_code in {200, 206}:
            ports.post(ArtifactServed(response.content_length or 0))
        return response

    @app.get(f"{PROGRAMS_PATH}<sha256>")
    def signed_program(sha256: str) -> Response:
        with ports.repository.transaction() as view:
            found = view.signed_programs().get(sha256)
        if found is None:
            abort(404, f"nobody signed the program {sha256[:64]}; devices know those of their release")
        return Response(found.encode(), content_type="application/json")

    @app.get(f"{METADATA_PATH}<name>")
    def release_metadata(name: str) -> Response:
        def published() -> PublishedReleases:
            with ports.repository.transaction() as view:
                return PublishedReleases(view.release_files(), order_of(view.releases()))

        path = metadata.file(name, published, ports.clock.now_s(), ports.distrust())
        if path is None:
            abort(404, f"there is no {name[:64]}")
        return Response(read_file(path, MOST_METADATA_BYTES), content_type="application/json")

    @app.after_request
    def protect(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.errorhandler(HTTPException)
    def explain(error: HTTPException) -> Response:
        code, detail = error.code or 500, error.description or ""
        if code == 413:
            detail = f"the body is too large; at most {MOST_BODY_BYTES:,} bytes are taken"
        if request.path.startswith(ROOT):
            return problem(code, detail)
        if error.response is not None:
            return cast(Response, error.response)
        if wants_page() and code == 401:
            keep_for_login(ours=is_ours(request))
            back = request.form.get("back", "/") if request.endpoint == "pages.log_in" else page_of_form()
            return Response(render_template("login.html", said=detail, back=back), code)
        if wants_page() and code >= 400:
            page = shown_again(code, error.name, detail) if is_ours(request) else None
            return Response(
                page or render_template("error.html", code=code, name=error.name, said=detail, back=page_of_form()),
                code,
            )
        return Response(f"{code} {error.name}: {detail}\n", code, content_type="text/plain; charset=utf-8")

    @app.errorhandler(UnavailableError)
    def cannot(error: UnavailableError) -> Response:
        _log.error("not_read", error=str(error), path=request.path)
        return explain(ServiceUnavailable("the database cannot be read now; look at /healthz"))

    limiter = add_admission(app, ports)
    add_api(app, ports, limiter)
    add_pages(app, site, pulse, limiter)
    return app


class _Cookie(SecureCookieSessionInterface):
    """The login cookie: only over TLS where TLS is on."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self._tls = config.tls

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002 - Flask's signature
        return self._tls or request.is_secure  # is_secure: a trusted proxy says so


def _pulse(ports: WebPorts) -> object:
    with ports.repository.transaction() as view:
        return view.pulse(), ports.troubles()
