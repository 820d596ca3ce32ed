"""Messages that end the process, kept away from it.

An exception is contained by the driver. What ends the process outright (a fault in compiled code, no memory) is not:
nothing was acknowledged, so the broker, or the device that got no answer, sends the message again, and the next process
dies of it as well. So the digest of each message is written down before it is handled, and crossed out after it. What
the next process finds written down has a death on its account. A message that is survived is clear again; one that
process after process died of is *condemned*: it is kept as a file, for a person to look at, and not handled any more.

The record is overwritten in place and not flushed to the disk: it costs microseconds, and a power cut is not the fault
of a message. Not safe for threads; the driver owns it (docs/adr/0018-messages-that-end-the-process.md).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from coordinator.inbox import MessageArrived, fingerprint
from coordinator.ports import Standing
from coordinator.shell.blobs import unavailable, write_durably

MOST_DEATHS = 3
"""Processes that may end with a message in hand: one may be bad luck, two a coincidence."""
MOST_REMEMBERED = 1_000
"""Messages with a death on their account: of those that never came again the oldest are forgotten."""

_DIGEST_BYTES = 16
_NOBODY = bytes(_DIGEST_BYTES)
_log = structlog.get_logger("coordinator")


class FileQuarantine:
    """Implements :class:`coordinator.ports.Quarantine`.

    A folder with ``in-hand`` (the digest of what is being handled, or zeros), ``deaths.json`` (how many processes ended
    with which digest in hand) and one ``.message`` file for each condemned message: its topic, a line feed, its bytes.
    Whoever deletes such a file has the message tried again.

    Args:
        folder: made if it is not there.

    Raises:
        UnavailableError: the folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._kept = {path.stem for path in folder.glob("*.message")}
            self._deaths = _read_deaths(folder / "deaths.json")
            self._record = os.open(folder / "in-hand", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            left = os.pread(self._record, _DIGEST_BYTES, 0)
            if len(left) == _DIGEST_BYTES and left != _NOBODY:
                self._blame(left.hex())
            os.pwrite(self._record, _NOBODY, 0)
        except OSError as error:
            raise unavailable(folder, error) from error

    def close(self) -> None:
        """Close the record."""
        os.close(self._record)

    def take(self, message: MessageArrived) -> None:
        """Write down what is about to be handled.

        Raises:
            UnavailableError: no room, or a broken disk.
        """
        self._clear()
        self._held = _digest(message)
        try:
            os.pwrite(self._record, bytes.fromhex(self._held), 0)
        except OSError as error:
            raise unavailable(self._folder, error) from error

    def let_go(self) -> None:
        """Cross out what was handled last, if anything was."""
        if self._held:
            with suppress(OSError):  # a death that comes before this is written would be put down to it, that is all
                os.pwrite(self._record, _NOBODY, 0)
            self._clear()

    def judge(self, message: MessageArrived) -> Standing:
        """What is known of a message."""
        if not self._deaths and not self._kept:
            return Standing.CLEAR
        digest = _digest(message)
        deaths = self._deaths.get(digest, 0)
        if digest in self._kept:
            return Standing.UNTOUCHABLE if deaths else Standing.CONDEMNED
        return Standing.CONDEMNED if deaths >= MOST_DEATHS else Standing.CLEAR

    def keep(self, message: MessageArrived) -> str:
        """Keep a condemned message as a file; its path.

        Raises:
            UnavailableError: no room, or a broken disk.
        """
        digest = _digest(message)
        path = self._folder / f"{digest}.message"
        try:
            if digest not in self._kept:
                write_durably(path, message.topic.encode() + b"\n" + message.payload)
                self._kept.add(digest)
                del self._deaths[digest]
                self._write_deaths()
        except OSError as error:
            raise unavailable(path, error) from error
        return str(path)

    def _clear(self) -> None:
        """What was in hand was survived."""
        if self._deaths.pop(self._held, 0):
            with suppress(OSError):  # on a broken disk it would have a death too many on its account, that is all
                self._write_deaths()
        self._held = ""

    def _blame(self, digest: str) -> None:
        self._deaths[digest] = self._deaths.pop(digest, 0) + 1
        for forgotten in list(self._deaths)[: max(len(self._deaths) - MOST_REMEMBERED, 0)]:
            del self._deaths[forgotten]
        self._write_deaths()
        _log.warning("process_ended_with_a_message_in_hand", digest=digest, deaths=self._deaths[digest])

    def _write_deaths(self) -> None:
        # Whole or not at all when the process is killed; not flushed to the disk, as above.
        fresh = self._folder / "deaths.json.new"
        fresh.write_bytes(msgspec.json.encode(self._deaths))
        fresh.replace(self._folder / "deaths.json")


def _digest(message: MessageArrived) -> str:
    return fingerprint(message.topic, message.payload)[: 2 * _DIGEST_BYTES]


def _read_deaths(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}  # never written, or cut by a power cut: nobody is blamed for that
