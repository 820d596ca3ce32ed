"""The keyboard's page and its JSON API, as a Flask application.

======================  =========================  ==================================================================
``GET  /``                                         the page
``GET  /worker.js``                                the script that lets a browser open the page without the agent
``POST /api/suggest``   ``{"text", "language"?}``  ``{"suggestions", "prefix", "space_takes", "version", "reason"}``
``POST /api/glide``     :class:`GlideBody`         ``{"words", "reason"}``: what a line over the letter keys may mean
``GET  /api/comparison``                           :class:`Comparison`: what two versions suggest in held-out messages
``GET  /api/emoji``                                ``[[character, name]]``
``POST /api/messages``  :class:`SentBody`          ``{"kept", "stored", "reason", "rule"}``; kept text is an example
``POST /api/import``    :class:`Imported`          ``{"kept", "stored"}``; how many lines of a file were kept
``GET  /api/words``                                ``[[word, count]]``; the words that were learned from the user
``POST /api/forget``    ``{"word"}``               ``{"words"}``; offers a word no more, and deletes an own one
``GET  /api/about``                                what the device does and stores, in numbers
``GET  /api/recall.svg``                           a chart of how well it predicted what was typed
``POST /api/learning``  ``{"paused"}``             ``{"paused"}``
``POST /api/wipe``      ``{"everything"}``         ``{"stored"}``; deletes all typed text
======================  =========================  ==================================================================

A refusal is ``{"error", "code"}``. Views validate input and call other code; they decide nothing. Every user of this
machine can reach the port, so each request that reveals or changes something needs the key
(:mod:`nightjar.edge_agent.keyboard.key`), which the page proves without sending it
(:mod:`nightjar.edge_agent.keyboard.sealing`); the page and its scripts reveal nothing. Four checks keep other web
sites from using the user's browser to get in: the ``Host`` must be this device's own (DNS rebinding), the ``Origin``
must be ours, ``Sec-Fetch-Site`` must agree, and bodies must be JSON (a form or a simple request of another site cannot
send it). Typed text is never logged or put into a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from flask import Flask, Response, jsonify, render_template, request
from werkzeug.exceptions import (
    BadRequest,
    Conflict,
    Forbidden,
    HTTPException,
    MisdirectedRequest,
    Unauthorized,
    UnsupportedMediaType,
)

from nightjar.edge_agent.core.stored import AgentTally
from nightjar.edge_agent.keyboard.comparison import Comparison
from nightjar.edge_agent.keyboard.emoji import emoji_names
from nightjar.edge_agent.keyboard.key import shows
from nightjar.edge_agent.keyboard.recall import drawing, latest
from nightjar.edge_agent.keyboard.sealing import NOT_ALLOWED, TAG_BYTES, SealedRequests
from nightjar.edge_agent.keyboard.sending import PAUSED, Sending, Store
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.models.vocabulary import MAX_WORD_CHARACTERS, words
from nightjar.wire.addresses import is_loopback
from nightjar.wire.errors import NightjarError, UnavailableError

MAX_TEXT_CHARACTERS = 2_000
MAX_GLIDE_POINTS = 400
MAX_LINES = 200
"""Lines of a file that the page sends at once; all of them must fit into a body."""
# JSON takes up to twelve bytes for a character (an escaped surrogate pair), and the page sends a point of a glide in
# sixteen or less; a longer body cannot hold a legal text.
MAX_BODY_BYTES = 12 * MAX_TEXT_CHARACTERS + 20 * MAX_GLIDE_POINTS + TAG_BYTES

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "manifest-src 'self'; worker-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # After an update of the agent the page must not run with an outdated script.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInfo(AgentTally):
    """What the panel next to the keyboard shows about the agent, beside what it has done.

    Attributes:
        state: lifecycle state by its name on the wire (``checked-in``); the page translates it into words.
        reason: why the agent is in this state, as text for the user.
        by_program: messages kept from desktop programs since the suggester started, by program.
    """

    device: str
    emulated: bool
    state: str
    reason: str
    by_program: Mapping[str, int] = field(default_factory=dict)


Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARACTERS)]


class TypedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request for suggestions.

    Attributes:
        slurs: whether slurs may be offered.
    """

    text: Text
    language: Annotated[str, msgspec.Meta(max_length=35)] = ""
    slurs: bool = False


class SentBody(TypedBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A sent message.

    Attributes:
        anyway: the person wants it kept though a rule found a secret in it.
    """

    anyway: bool = False


class Imported(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines of a file of the user's; a line of one word is a word to learn, others are messages."""

    lines: Annotated[tuple[Text, ...], msgspec.Meta(max_length=MAX_LINES)]


class Forgotten(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A word that is to be offered no more."""

    word: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_WORD_CHARACTERS)]


Coordinate = Annotated[float, msgspec.Meta(ge=-100, le=100)]
Place = tuple[Coordinate, Coordinate]


class GlideBody(TypedBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of a request for the words of a glide.

    Attributes:
        points: the line, (right, down), in key widths.
        keys: the letters of the layout and the centres of their keys, in the same units.
    """

    points: Annotated[tuple[Place, ...], msgspec.Meta(min_length=2, max_length=MAX_GLIDE_POINTS)]
    keys: Annotated[
        dict[Annotated[str, msgspec.Meta(min_length=1, max_length=1)], Place],
        msgspec.Meta(min_length=1, max_length=64),
    ]


class Learning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request to pause or resume learning."""

    paused: bool


class Wipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request to delete everything; a required word keeps an empty or mistaken request from doing it."""

    everything: Literal["delete"]


def create_app(
    suggester: Suggester,
    store: Store,
    about: Callable[[], AgentInfo],
    wipe: Callable[[], None],
    key: str,
    on_typing: Callable[[], None] = lambda: None,
    compared: Callable[[], Comparison] = Comparison,
) -> Flask:
    """Create the keyboard application.

    ``about`` is called for each view of the panel, from any thread. ``wipe`` deletes the suggester's own words, too,
    and returns when it is done. ``on_typing`` is called whenever somebody types. ``compared`` takes seconds.
    """
    app = Flask(__name__)
    sending = Sending(suggester, store)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    _guard(app, key)

    @app.get("/")
    def page() -> str:
        return render_template("keyboard.html", max_text_characters=MAX_TEXT_CHARACTERS)

    @app.get("/worker.js")
    def worker() -> Response:
        # It may serve the page only if it comes from the page's own folder.
        files = sorted(file.name for file in Path(str(app.static_folder)).iterdir())
        return Response(render_template("worker.js", files=files), mimetype="text/javascript")

    @app.post("/api/suggest")
    def suggest() -> Response:
        body = _body(TypedBody)
        if body.text:
            on_typing()
        suggestions = suggester.suggest(body.text, language=body.language, slurs=body.slurs)
        return jsonify(
            suggestions=suggestions.words,
            prefix=suggestions.prefix,
            space_takes=suggestions.space_takes,
            version=suggestions.version,
            reason=suggestions.reason,
        )

    @app.post("/api/glide")
    def glide() -> Response:
        body = _body(GlideBody)
        on_typing()
        meant = suggester.glide(body.text, body.points, body.keys, language=body.language, slurs=body.slurs)
        return jsonify(words=meant.words, reason=meant.reason)

    @app.get("/api/comparison")
    def comparison() -> Response:
        return jsonify(msgspec.to_builtins(compared()))

    @app.get("/api/emoji")
    def emoji() -> Response:
        return jsonify(emoji_names())

    @app.post("/api/messages")
    def send() -> Response:
        sent = _body(SentBody)
        if not sent.text.strip():
            msg = "expected a message with something in it, got an empty one"
            raise BadRequest(msg)
        became = sending.send(sent.text, sent.language, anyway=sent.anyway)
        return jsonify(kept=became.kept, stored=store.count(), reason=became.reason, rule=became.rule)

    @app.post("/api/import")
    def take_in() -> Response:
        lines = _body(Imported).lines
        if store.learning_paused():
            raise Conflict(PAUSED)
        return jsonify(kept=sum(map(sending.take_in, lines)), stored=store.count())

    @app.get("/api/words")
    def own_words() -> Response:
        return jsonify([[one.written, one.count] for one in store.own_words() if one.count])

    @app.post("/api/forget")
    def forget() -> Response:
        word = "".join(words(_body(Forgotten).word)[:1])
        if not word:
            msg = "expected a word, got none"
            raise BadRequest(msg)
        store.forget_own_word(word, offered_anyway=suggester.lists(word))
        suggester.replace_own_words(store.own_words())
        return jsonify(words=suggester.own_words)

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
    """Refuse requests from other sites or without the key, and add the security headers to every response."""
    app.wsgi_app = SealedRequests(app.wsgi_app, key)  # type: ignore[method-assign]  # Flask's documented way

    @app.before_request
    def refuse_others() -> None:
        if not is_this_device(request.host):
            msg = "this keyboard does not serve that host name; open it under the address that the agent printed"
            raise MisdirectedRequest(msg)
        origin = request.headers.get("Origin")
        foreign = origin is not None and urlsplit(origin).netloc != request.host
        # A link on another site may open the page, but another site must not make any other request.
        if request.path != "/":
            foreign = foreign or request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
        if foreign:
            msg = "this keyboard takes requests from its own page only, and this one came from another site"
            raise Forbidden(msg)
        if request.endpoint not in ("page", "static", "worker") and not shows(
            request.headers.get("Authorization", ""), key
        ):
            raise Unauthorized(NOT_ALLOWED)

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
    """Whether a ``Host`` header, with or without a port, names this device.

    Another site can make its own name resolve to this device and would then count as the same site (DNS rebinding); the
    name in the header gives it away.

    >>> is_this_device("localhost:8700"), is_this_device("[::1]:8700"), is_this_device("evil.example:8700")
    (True, True, False)
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
        # msgspec's messages name the place and the kind of error, never the value.
        fault = error if isinstance(error, msgspec.MsgspecError) else "not UTF-8 JSON"
        fields = ", ".join(kind.__struct_fields__)
        msg = (
            f"expected {{{fields}}} with a text of at most {MAX_TEXT_CHARACTERS} characters, got another body: {fault}"
        )
        raise BadRequest(msg) from error
