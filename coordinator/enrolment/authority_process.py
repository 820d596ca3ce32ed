"""The authority's process, and how the service asks it: a line of JSON for each question and for each answer.

The process that faces the network never reads the authority's key. What it asks is a program that reads questions
from its standard input: by default ``nightjar-coordinator authority serve`` as our own child, and by configuration
anything that answers the same way, such as that command under another user (``sudo -u``) or on another machine
(``ssh``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from coordinator.enrolment.authority import Authority
from host.children import LineChild, answer_lines
from wire.errors import NightjarError, RemoteProtocolError, UnavailableError

ANSWER_S, START_S, SERIAL_S = 3.0, 20.0, 0.001
"""Longest waits: for an answer, for a process that starts first, and for each certificate on a list."""


class CertifyDevice(msgspec.Struct, frozen=True, tag=True):
    """A certificate for a device's key."""

    csr: str
    device: str
    days: float


class CertifyServer(msgspec.Struct, frozen=True, tag=True):
    """A certificate for a server's key; its certificate and that of the authority come back."""

    csr: str
    names: list[str]
    days: float


class Revoke(msgspec.Struct, frozen=True, tag=True):
    """Lists of revoked certificates, one of each authority; serial numbers as decimal text."""

    serials: list[str]


class ListAuthorities(msgspec.Struct, frozen=True, tag=True):
    """The certificates that everybody has to trust."""


class Signed(msgspec.Struct, frozen=True, tag=True):
    """What was asked for: PEM documents."""

    documents: list[str]


class Unsigned(msgspec.Struct, frozen=True, tag=True):
    """Why not; ``csr`` is the asker's fault, anything else ours."""

    code: str
    reason: str


Question = CertifyDevice | CertifyServer | Revoke | ListAuthorities
Answer = Signed | Unsigned

_QUESTIONS: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def serve(questions: BinaryIO, answers: BinaryIO, folder: Path, now_s: Callable[[], float]) -> None:
    """Answer until the input ends; the folder is read for each question, so a rotation needs no restart."""
    answer_lines(questions, answers, lambda line: msgspec.json.encode(_answer(line, folder, now_s())))


def _answer(line: bytes, folder: Path, now_s: float) -> Answer:
    try:
        question = _QUESTIONS.decode(line)
        authority = Authority(folder, now_s)
        match question:
            case CertifyDevice(csr, device, days):
                return Signed([authority.certify_device(csr, device, days, now_s)])
            case CertifyServer(csr, names, days):
                return Signed([authority.certify_server(csr, names, days, now_s)])
            case Revoke(serials):
                return Signed(authority.revocations([int(serial) for serial in serials], now_s))
            case ListAuthorities():
                return Signed(authority.certificates())
    except NightjarError as error:
        return Unsigned(error.code, str(error))
    except (msgspec.MsgspecError, ValueError) as error:
        return Unsigned("malformed", str(error))


class AuthorityClient:
    """Asks the authority's process; started at the first question, and again when it is gone or hangs. Any thread.

    Args:
        command: the program and its arguments.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._lock = threading.Lock()
        self._child = LineChild(command)

    def ask(self, question: Question) -> list[str]:
        """PEM documents.

        Raises:
            RemoteProtocolError: the request to be certified is none.
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
    """What serves the authority in a folder."""
    return [sys.executable, "-m", "coordinator", "authority", "serve", "--folder", str(folder)]
