"""Seals what the page and the suggester say to each other, so that whoever else holds the port learns nothing.

While the agent is away, another user of the machine can listen on its port, and an open page goes on asking. So the
page's key never travels. From it, a random number of the page's and one of this process, both sides derive a key for
each direction (HKDF, RFC 5869) and encrypt every question and answer (AES-GCM, NIST SP 800-38D). The method, the path
and the status are authenticated with them. Without the key nobody reads a question, and nobody makes an answer that the
page accepts. What was sent while another program held the port is worth nothing to it later: each process of ours
draws its own number. Nor is what passed through it, as over a connection that the page kept from then: a question is
answered once.

A question has the header ``Authorization: Sealed CLIENT SERVER IV [BODY]``, in hexadecimal: the two random numbers, the
initialisation vector, and, where the method has no body, the sealed empty body. Otherwise the sealed body is the body.
``GET /api/session`` tells the number of this process to anybody.
"""

from __future__ import annotations

import functools
import hmac
import io
import re
import secrets
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from nightjar.edge_agent.keyboard.key import headers

SESSION_PATH = "/api/session"
SCHEME = "Sealed"
IV_BYTES, TAG_BYTES, NUMBER_BYTES = 12, 16, 16
MOST_SESSIONS = 64
"""Pages whose keys are kept; those of others are derived again."""
MOST_QUESTIONS = 20_000
"""That are remembered, so that none is answered twice; then another number is drawn, for which none of them counts."""
_QUESTION = re.compile(r"Sealed ([0-9a-f]{32}) ([0-9a-f]{32}) ([0-9a-f]{24})(?: ([0-9a-f]{32}))?(?!\n)")
_OTHER_SESSION = {"error": "another session", "code": "session"}
NOT_ALLOWED = "This browser may not use the keyboard yet: open the address that 'nightjar-agent status' prints."

_Environment = dict[str, Any]
_Start = Callable[..., Any]
Wsgi = Callable[[_Environment, _Start], Iterable[bytes]]


class Session:
    """The keys of one page and one process of the suggester.

    >>> page, server = (Session("key", "aa" * 16, "bb" * 16) for _ in range(2))
    >>> server.open_question("POST /", bytes(12), page.seal_question("POST /", bytes(12), b"hello"))
    b'hello'
    """

    def __init__(self, key: str, client: str, server: str) -> None:
        salt = bytes.fromhex(client + server)
        self._up, self._down = (
            AESGCM(HKDF(SHA256(), 32, salt, b"nightjar keyboard " + way).derive(key.encode()))
            for way in (b"up", b"down")
        )

    def seal_question(self, about: str, iv: bytes, body: bytes) -> bytes:
        """Seal a question; ``about`` is its method and path."""
        return self._up.encrypt(iv, body, about.encode())

    def open_question(self, about: str, iv: bytes, sealed: bytes) -> bytes:
        """Open a question.

        Raises:
            InvalidTag: it was not sealed with our key, or for another method or path.
        """
        return self._up.decrypt(iv, sealed, about.encode())

    def seal_answer(self, question_iv: bytes, status: int, body: bytes) -> bytes:
        """Seal the answer to a question: an initialisation vector, and the sealed body."""
        iv = secrets.token_bytes(IV_BYTES)
        return iv + self._down.encrypt(iv, body, _about_answer(question_iv, status))

    def open_answer(self, question_iv: bytes, status: int, sealed: bytes) -> bytes:
        """Open the answer to a question.

        Raises:
            InvalidTag: it was not sealed with our key, or answers another question.
        """
        return self._down.decrypt(sealed[:IV_BYTES], sealed[IV_BYTES:], _about_answer(question_iv, status))


def _about_answer(question_iv: bytes, status: int) -> bytes:
    return question_iv + str(status).encode()


class SealedRequests:
    """Opens sealed questions for an application, and seals its answers; other requests pass as they are."""

    def __init__(self, application: Wsgi, key: str) -> None:
        self._application, self._key = application, key
        self._number = secrets.token_hex(NUMBER_BYTES)
        self._session = functools.lru_cache(MOST_SESSIONS)(lambda client, number: Session(self._key, client, number))
        self._asked: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def __call__(self, environ: _Environment, start_response: _Start) -> Iterable[bytes]:
        """Answer a request."""
        if environ["PATH_INFO"] == SESSION_PATH and environ["REQUEST_METHOD"] == "GET":
            return _plain(start_response, "200 OK", {"number": self._number})
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        if not authorization.startswith(f"{SCHEME} "):
            return self._application(environ, start_response)
        asked = _QUESTION.fullmatch(authorization)
        if asked is None or not hmac.compare_digest(asked[2], self._number):
            return _plain(start_response, "409 Conflict", _OTHER_SESSION)
        session, iv = self._session(asked[1], asked[2]), bytes.fromhex(asked[3])
        length = int(environ.get("CONTENT_LENGTH") or 0)
        sealed = bytes.fromhex(asked[4]) if asked[4] else environ["wsgi.input"].read(length)
        try:
            body = session.open_question(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}", iv, sealed)
        except (InvalidTag, ValueError):  # ValueError: shorter than a tag
            return _plain(start_response, "401 Unauthorized", {"error": NOT_ALLOWED, "code": "unauthorized"})
        if not self._first(asked[1], asked[2], iv):
            return _plain(start_response, "409 Conflict", _OTHER_SESSION)
        opened = {
            **environ,
            "wsgi.input": io.BytesIO(body),
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": "application/json",
            "HTTP_AUTHORIZATION": headers(self._key)["Authorization"],
        }
        return self._sealed_answer(opened, start_response, session, iv)

    def _first(self, client: str, number: str, iv: bytes) -> bool:
        """Whether an authentic question comes for the first time, and with our number of now; remembers it."""
        with self._lock:
            if number != self._number or (client, iv) in self._asked:
                return False
            self._asked.add((client, iv))
            if len(self._asked) >= MOST_QUESTIONS:
                self._number = secrets.token_hex(NUMBER_BYTES)
                self._asked.clear()
            return True

    def _sealed_answer(
        self, environ: _Environment, start_response: _Start, session: Session, iv: bytes
    ) -> Iterable[bytes]:
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, fields: list[tuple[str, str]], _exc_info: object = None) -> Callable[[bytes], object]:
            started.append((status, fields))
            return lambda _piece: None

        pieces = self._application(environ, start)
        try:
            body = b"".join(pieces)
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        status, fields = started[-1]
        sealed = session.seal_answer(iv, int(status.split()[0]), body)
        kept = [(name, value) for name, value in fields if name.lower() not in {"content-type", "content-length"}]
        sizes = [("Content-Type", "application/octet-stream"), ("Content-Length", str(len(sealed)))]
        start_response(status, kept + sizes)
        return [sealed]


def _plain(start_response: _Start, status: str, answer: dict[str, str]) -> Iterable[bytes]:
    body = msgspec.json.encode(answer)
    fields = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    start_response(status, list(fields.items()))
    return [body]
