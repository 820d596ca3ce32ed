"""The authority's process and its client: one line of JSON for each question and for each answer.

The process that faces the network never reads the authority's key. It asks a program that reads questions from its
standard input: by default ``nightjar-coordinator authority serve`` as a child process. It can be configured to be any
program that speaks this protocol, such as that command under another user (``sudo -u``) or on another machine
(``ssh``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from nightjar.coordinator.tls.authority import Authority
from nightjar.host.children import LineChild, answer_lines, python_command
from nightjar.wire.errors import NightjarError, RemoteProtocolError, UnavailableError

ANSWER_S, START_S, SERIAL_S = 3.0, 20.0, 0.001
"""Timeout of an answer; what is added to it if the process has to start, and for each certificate on a list."""


class CertifyDevice(msgspec.Struct, frozen=True, tag=True):
    """Asks for a certificate for a device's key."""

    csr: str
    device: str
    days: float


class CertifyServer(msgspec.Struct, frozen=True, tag=True):
    """Asks for a certificate for a server's key."""

    csr: str
    names: list[str]
    days: float


class Revoke(msgspec.Struct, frozen=True, tag=True):
    """Asks for revocation lists, one from each authority; serial numbers are decimal text."""

    serials: list[str]


class ListAuthorities(msgspec.Struct, frozen=True, tag=True):
    """Asks for the certificates of the authorities that servers and devices must trust."""


class Signed(msgspec.Struct, frozen=True, tag=True):
    """The requested PEM documents."""

    documents: list[str]


class Unsigned(msgspec.Struct, frozen=True, tag=True):
    """Why the authority did not sign; code ``csr`` blames the requester, any other code blames us."""

    code: str
    reason: str


Question = CertifyDevice | CertifyServer | Revoke | ListAuthorities
Answer = Signed | Unsigned

_QUESTIONS: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def serve(questions: BinaryIO, answers: BinaryIO, folder: Path, now_s: Callable[[], float]) -> None:
    """Answer questions until the input ends; the folder is read for each one, so a rotation needs no restart."""
    answer_lines(questions, answers, lambda line: msgspec.json.encode(_answer(line, folder, now_s())))


def _answer(line: bytes, folder: Path, now_s: float) -> Answer:
    try:
        question = _QUESTIONS.decode(line)
        authority = Authority(folder)
        match question:
            case CertifyDevice(csr, device, days):
                return Signed([authority.certify_device(csr, device, days, now_s)])
            case CertifyServer(csr, names, days):
                return Signed([authority.certify_server(csr, names, days, now_s)])
            case Revoke(serials):
                return Signed(authority.revocations([int(serial) for serial in serials]))
            case ListAuthorities():
                return Signed(authority.certificates())
    except NightjarError as error:
        return Unsigned(error.code, str(error))
    except (msgspec.MsgspecError, ValueError) as error:
        return Unsigned("malformed", str(error))


class AuthorityClient:
    """Client of the authority's process. Thread-safe.

    The process starts at the first question, and again after it exited or hung.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._lock = threading.Lock()
        self._child = LineChild(command)

    def ask(self, question: Question) -> list[str]:
        """Ask a question; the answer is PEM documents.

        Raises:
            RemoteProtocolError: the certificate request is invalid.
            UnavailableError: the authority does not answer, or cannot sign now.
        """
        match self._answer(question):
            case Signed(documents):
                return documents
            case Unsigned("csr", reason):
                raise RemoteProtocolError(reason, code="csr")
            case Unsigned(_, reason):
                msg = f"the certificate authority does not sign: {reason}"
                raise UnavailableError(msg)
            case None:
                msg = f"the certificate authority does not answer; see that this works: {' '.join(self._command)}"
                raise UnavailableError(msg)

    def close(self) -> None:
        """End the process."""
        if self._lock.acquire(timeout=ANSWER_S):
            self._child.end(patience_s=5.0)
            self._lock.release()
        else:
            self._child.kill()

    def _answer(self, question: Question) -> Answer | None:
        if not self._lock.acquire(timeout=ANSWER_S):
            return None
        try:
            limit_s = ANSWER_S + (START_S if self._child.pid is None else 0.0)
            if isinstance(question, Revoke):
                limit_s += len(question.serials) * SERIAL_S
            line = self._child.ask(msgspec.json.encode(question), limit_s)
        finally:
            self._lock.release()
        try:
            return None if line is None else _ANSWERS.decode(line)
        except msgspec.MsgspecError:
            return None


def own_command(folder: Path) -> list[str]:
    """The command that serves the authority in a folder."""
    return python_command("-m", "nightjar.coordinator", "authority", "serve", "--folder", str(folder))
