"""The keyboard's page and its JSON interface, as a Flask application.

======================  =========================  ==================================================================
``GET  /``                                         the page
``POST /api/suggest``   ``{"text", "language"?}``  ``{"suggestions", "prefix", "space_takes", "version", "reason"}``
``POST /api/messages``  ``{"text", "language"?}``  ``{"kept", "stored", "reason"}``; what is kept becomes an example
``GET  /api/about``                                what the device does and keeps, in numbers
``GET  /api/recall.svg``                           how well it foresaw what was typed, as a drawing
``POST /api/learning``  ``{"paused"}``             ``{"paused"}``
``POST /api/wipe``      ``{"everything"}``         ``{"stored"}``; whatever was typed is gone
======================  =========================  ==================================================================

A refusal is ``{"error", "code"}``. Views validate and call; they decide nothing. Every user of this machine reaches the
port, so whatever tells or changes something takes the key (:mod:`edge_agent.keyboard.key`); the page itself and its
scripts tell nothing. Nor must other web sites come in through the user's browser, and four checks see to it: a ``Host``
that is this device's own (DNS rebinding), an ``Origin`` that is ours, a ``Sec-Fetch-Site`` that says so too, and JSON
bodies only (a form or a plain script of another site cannot send them).
Typed text is never logged nor put into a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from flask import Flask, Response, jsonify, render_template, request
from werkzeug.exceptions import (
    BadRequest,
    Forbidden,
    HTTPException,
    MisdirectedRequest,
    Unauthorized,
    UnsupportedMediaType,
)

from edge_agent.keyboard.key import shows
from edge_agent.keyboard.learning import own_words_in
from edge_agent.keyboard.recall import drawing, latest
from edge_agent.keyboard.suggestions import Suggester
from edge_agent.ports import OwnWord, RecallCount
from wire.addresses import is_loopback
from wire.errors import NightjarError, UnavailableError

MAX_TEXT_CHARACTERS = 2_000
# JSON may spell a character in twelve bytes (an escaped surrogate pair); a longer body cannot hold a legal text.
MAX_BODY_BYTES = 12 * MAX_TEXT_CHARACTERS + 1_000

PAUSED = "Not kept: learning is paused."
PRIVATE = "Not kept: something in it looks private, such as a number, an address or a password."

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


class Store(Protocol):
    """What the device keeps of what was typed."""

    def add(self, text: str) -> str:
        """Keep what may be kept of one sent message, and return that; empty if nothing was kept."""

    def count(self) -> int:
        """How many messages are kept."""

    def size_bytes(self) -> int:
        """UTF-8 bytes of all of them."""

    def learning_paused(self) -> bool:
        """Whether the person has paused learning."""

    def pause_learning(self, *, paused: bool) -> None:
        """Pause learning, or go on with it."""

    def note_own_words(self, typed: Sequence[tuple[str, str]]) -> None:
        """Count words that no vocabulary has: each in lower case, and as it was written."""

    def own_words(self) -> list[OwnWord]:
        """Those of them that were typed often enough to be learned."""

    def note_recall(self, version: int, words: int, top1: int, top3: int) -> None:
        """Note how much of a message was foreseen with a version of the model; 0 is no model."""

    def recall(self) -> list[RecallCount]:
        """What was foreseen of each message, oldest first."""


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What the agent says of itself to the panel beside the keyboard.

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


Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARACTERS)]


class TypedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a question for suggestions, and of a sent message."""

    text: Text
    language: Annotated[str, msgspec.Meta(max_length=35)] = ""


class Learning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request to pause learning, or to go on."""

    paused: bool


class Wipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request to delete everything; spelled out, so that no empty or mistaken request does it."""

    everything: Literal["delete"]


def create_app(
    suggester: Suggester,
    store: Store,
    about: Callable[[], AgentInfo],
    wipe: Callable[[], None],
    key: str,
    on_typing: Callable[[], None] = lambda: None,
) -> Flask:
    """Make the keyboard application.

    Args:
        suggester: chooses the words.
        store: receives what is sent.
        about: called for each look at the panel, from any thread.
        wipe: deletes whatever was typed and came of it, the suggester's own words too; returns when it is done.
        key: what each request has to show.
        on_typing: called whenever somebody is typing.
    """
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    _guard(app, key)

    @app.get("/")
    def page() -> str:
        return render_template("keyboard.html", max_text_characters=MAX_TEXT_CHARACTERS)

    @app.post("/api/suggest")
    def suggest() -> Response:
        asked = _body(TypedBody)
        if asked.text:
            on_typing()
        found = suggester.suggest(asked.text, language=asked.language)
        return jsonify(
            suggestions=found.words,
            prefix=found.prefix,
            space_takes=found.space_takes,
            version=found.version,
            reason=found.reason,
        )

    @app.post("/api/messages")
    def send() -> Response:
        sent = _body(TypedBody)
        if not sent.text.strip():
            msg = "expected a message with something in it, got an empty one"
            raise BadRequest(msg)
        if store.learning_paused():
            return jsonify(kept=False, stored=store.count(), reason=PAUSED)
        foreseen = suggester.recall(sent.text, sent.language)
        kept = store.add(sent.text)
        if not kept:
            return jsonify(kept=False, stored=store.count(), reason=PRIVATE)
        if foreseen.words:
            store.note_recall(suggester.version or 0, *foreseen)
        suggester.learn(kept)
        own = own_words_in(kept, suggester.knows)
        if own:
            store.note_own_words(own)
            suggester.replace_own_words(store.own_words())
        return jsonify(kept=True, stored=store.count(), reason="")

    @app.get("/api/about")
    def tell_about() -> Response:
        return jsonify(
            **asdict(about()),
            version=suggester.version,
            stored=store.count(),
            stored_bytes=store.size_bytes(),
            own_words=suggester.own_words,
            paused=store.learning_paused(),
            foreseen=latest(store.recall())._asdict(),
        )

    @app.get("/api/recall.svg")
    def draw_recall() -> Response:
        picture = drawing(store.recall())
        return Response(render_template("recall.svg", picture=picture), mimetype="image/svg+xml")

    @app.post("/api/learning")
    def pause() -> Response:
        store.pause_learning(paused=_body(Learning).paused)
        return jsonify(paused=store.learning_paused())

    @app.post("/api/wipe")
    def delete_everything() -> Response:
        _body(Wipe)
        wipe()
        return jsonify(stored=store.count())

    return app


def _guard(app: Flask, key: str) -> None:
    """Refuse what is not of our own page or without the key; say on every answer that it is for that page only."""

    @app.before_request
    def refuse_others() -> None:
        if not is_this_device(request.host):
            msg = "this keyboard does not serve that host name; open it under the address that the agent printed"
            raise MisdirectedRequest(msg)
        origin = request.headers.get("Origin")
        foreign = origin is not None and urlsplit(origin).netloc != request.host
        # A link on another site may open the page, but nothing of another site may ask for anything.
        if request.path != "/":
            foreign = foreign or request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
        if foreign:
            msg = "this keyboard takes requests from its own page only, and this one came from another site"
            raise Forbidden(msg)
        if request.endpoint not in ("page", "static") and not shows(request.headers.get("Authorization", ""), key):
            msg = "This browser may not use the keyboard yet: open the address that 'nightjar-agent status' prints."
            raise Unauthorized(msg)

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


def is_this_device(host: str) -> bool:
    """Whether a ``Host`` header names this device itself.

    A page of another site can make its own name resolve to this device and would then count as the same site; its name
    gives it away.

    >>> is_this_device("localhost:8700"), is_this_device("[::1]:8700"), is_this_device("evil.example:8700")
    (True, True, False)

    Args:
        host: value of the header, with or without a port.
    """
    try:
        name = urlsplit("//" + host).hostname or ""
    except ValueError:
        return False
    return is_loopback(name)


_Body = TypeVar("_Body", bound=msgspec.Struct)


def _body(kind: type[_Body]) -> _Body:
    if not request.is_json:
        msg = "expected a JSON body with content type application/json"
        raise UnsupportedMediaType(msg)
    try:
        return msgspec.json.decode(request.get_data(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # msgspec's messages name the place and the kind of fault, never the value.
        fault = error if isinstance(error, msgspec.MsgspecError) else "not UTF-8 JSON"
        fields = ", ".join(kind.__struct_fields__)
        msg = (
            f"expected {{{fields}}} with a text of at most {MAX_TEXT_CHARACTERS} characters, got another body: {fault}"
        )
        raise BadRequest(msg) from error
