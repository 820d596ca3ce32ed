"""The keyboard's page and its JSON interface, as a Flask application.

======================  ============  ===================================================
``GET  /``                            the page
``POST /api/suggest``   ``{"text"}``  ``{"suggestions", "completing", "version", "reason"}``
``POST /api/messages``  ``{"text"}``  ``{"stored"}``; the message becomes a training example
``GET  /api/about``                   what the device does, in numbers
======================  ============  ===================================================

A refusal is ``{"error", "code"}``. Views validate and call; they decide nothing. There are no cookies, accounts or
sessions: whoever reaches the port on this device is its user. So other web sites must not reach it through that user's
browser, and three checks see to it: a ``Host`` that is ours (DNS rebinding), an ``Origin`` that is ours, and JSON
bodies only (a form or a plain script of another site cannot send them). Typed text is never logged nor put into a URL.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import msgspec
from flask import Flask, Response, jsonify, render_template, request
from werkzeug.exceptions import BadRequest, Forbidden, HTTPException, MisdirectedRequest, UnsupportedMediaType

from edge_agent.keyboard.suggestions import Suggester
from wire.errors import NightjarError, UnavailableError

MAX_TEXT_CHARACTERS = 2_000
# JSON may spell a character in twelve bytes (an escaped surrogate pair); a longer body cannot hold a legal text.
MAX_BODY_BYTES = 12 * MAX_TEXT_CHARACTERS + 1_000

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # After an update of the agent the page must not run with yesterday's script.
    "Cache-Control": "no-cache",
}


class ExampleStore(Protocol):
    """Where the device keeps what was typed."""

    def add(self, text: str) -> None:
        """Keep one sent message."""

    def count(self) -> int:
        """How many messages are kept."""


@dataclass(frozen=True, slots=True)
class About:
    """What the panel beside the keyboard says about the device.

    Attributes:
        device: name of the device.
        emulated: the device is played by a program.
        state: state of the agent's lifecycle, by its name on the wire (``checked-in``); the page has words for it.
        reason: why it is in that state, for the person.
        last_trained_at_s: when a training session last ended, seconds since 1970 UTC; None if never.
        last_report_bytes: size of the last report; None if there was none.
        reports_sent: reports that were answered with a receipt.
        bytes_sent: total size of those reports.
    """

    device: str
    emulated: bool
    state: str
    reason: str
    last_trained_at_s: float | None = None
    last_report_bytes: int | None = None
    reports_sent: int = 0
    bytes_sent: int = 0


class TypedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of both POST requests."""

    text: Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARACTERS)]


def create_app(
    suggester: Suggester[Any],
    store: ExampleStore,
    about: Callable[[], About],
    host: str = "127.0.0.1",
) -> Flask:
    """Make the keyboard application.

    Args:
        suggester: chooses the words.
        store: receives what is sent.
        about: called for each look at the panel, from any thread.
        host: the name or address under which the agent was told to serve; loopback always works too.
    """
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES

    @app.before_request
    def refuse_other_sites() -> None:
        if not serves_host(request.host, host):
            msg = "this keyboard does not serve that host name; open it under the address that the agent printed"
            raise MisdirectedRequest(msg)
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            msg = "this keyboard takes requests from its own page only, and this one came from another site"
            raise Forbidden(msg)

    @app.after_request
    def add_security_headers(response: Response) -> Response:
        response.headers.update(SECURITY_HEADERS)
        if request.path.startswith("/api/"):
            response.headers["Cache-Control"] = "no-store"
        return response

    @app.errorhandler(HTTPException)
    def say_what_is_wrong(error: HTTPException) -> tuple[Response, int]:
        status = error.code or 500
        return jsonify(error=error.description, code=error.name.lower().replace(" ", "-")), status

    @app.errorhandler(NightjarError)
    def say_what_failed(error: NightjarError) -> tuple[Response, int]:
        status = 503 if isinstance(error, UnavailableError) else 500
        return jsonify(error=str(error), code=error.code), status

    @app.get("/")
    def page() -> str:
        return render_template("keyboard.html", max_text_characters=MAX_TEXT_CHARACTERS)

    @app.post("/api/suggest")
    def suggest() -> Response:
        found = suggester.suggest(_typed_text())
        return jsonify(suggestions=found.words, completing=found.completing, version=found.version, reason=found.reason)

    @app.post("/api/messages")
    def send() -> Response:
        text = _typed_text()
        if not text.strip():
            msg = "expected a message with something in it, got an empty one"
            raise BadRequest(msg)
        store.add(text)
        return jsonify(stored=store.count())

    @app.get("/api/about")
    def tell_about() -> Response:
        return jsonify(asdict(about()) | {"version": suggester.version, "stored": store.count()})

    return app


def serves_host(header: str, configured: str) -> bool:
    """Whether a ``Host`` header names this keyboard.

    A page of another site can make its own name resolve to this device and would then count as the same site; its name
    gives it away. An address in figures cannot be used for that, so all of them are fine once the agent serves all.

    >>> serves_host("localhost:8700", "127.0.0.1"), serves_host("[::1]:8700", "127.0.0.1")
    (True, True)
    >>> serves_host("evil.example:8700", "0.0.0.0"), serves_host("192.168.1.7:8700", "0.0.0.0")
    (False, True)

    Args:
        header: value of the header, with or without a port.
        configured: host that the agent serves on.
    """
    try:
        name = urlsplit("//" + header).hostname or ""
    except ValueError:
        return False
    if name in ("localhost", configured.lower()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or configured in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def _typed_text() -> str:
    if not request.is_json:
        msg = 'expected a JSON body, {"text": "..."} with content type application/json'
        raise UnsupportedMediaType(msg)
    try:
        return msgspec.json.decode(request.get_data(), type=TypedText).text
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # msgspec's messages name the place and the kind of fault, never the value.
        kind = error if isinstance(error, msgspec.MsgspecError) else "not UTF-8 JSON"
        msg = f'expected {{"text": "..."}} with at most {MAX_TEXT_CHARACTERS} characters, got another body: {kind}'
        raise BadRequest(msg) from error
