"""Messages that end the process, kept away from it.

An exception is contained by the driver. What ends the process outright (a fault in compiled code, no memory) is not:
nothing was acknowledged, so the broker, or the device that got no answer, sends the message again, and the next process
dies of it as well. So the digest of each message is written down before it is handled, and crossed out after it. What
the next process finds written down has a death on its account. A message that is survived is clear again; one that
process after process died of is *condemned*: it is kept as a file, for a person to look at, and not handled any more.

Messages of which nothing is known are written down some at a time, because a system call for each was a tenth of what a
report cost. When the process dies, all of those are suspected; each suspect is written down alone the next time, so
only the one that did it dies again.

The record is overwritten in place and not flushed to the disk: it costs microseconds, and a power cut is not the fault
of a message. Not safe for threads; the driver owns it (docs/adr/0018-messages-that-end-the-process.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from coordinator.inbox import MessageArrived
from coordinator.ports import Standing
from coordinator.shell.blobs import unavailable, write_durably

MOST_DEATHS = 3
"""Processes that may end with a message in hand: one may be bad luck, two a coincidence."""
MOST_REMEMBERED = 1_000
"""Messages with a death on their account: of those that never came again the oldest are forgotten."""

TOGETHER = 16
"""Messages that are written down at once."""

_DIGEST_BYTES = 16
_NOBODY = bytes(TOGETHER * _DIGEST_BYTES)
_log = structlog.get_logger("coordinator")


class FileQuarantine:
    """Implements :class:`coordinator.ports.Quarantine`.

    A folder with ``in-hand`` (the digests of what is being handled, then zeros), ``deaths.json`` (how many processes
    ended with which digest in hand) and one ``.message`` file for each condemned message: its topic, a line feed, its
    bytes. Whoever deletes such a file has the message tried again.

    Args:
        folder: made if it is not there.

    Raises:
        UnavailableError: the folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: Sequence[str] = ()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._kept = {path.stem for path in folder.glob("*.message")}
            self._deaths = _read_deaths(folder / "deaths.json")
            self._record = os.open(folder / "in-hand", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            left = _digests_in(os.pread(self._record, len(_NOBODY), 0))
            if left:
                self._blame(left)
            os.pwrite(self._record, _NOBODY, 0)
        except OSError as error:
            raise unavailable(folder, error) from error

    def close(self) -> None:
        """Close the record."""
        os.close(self._record)

    def hand_out(self, messages: Iterable[MessageArrived]) -> Iterator[tuple[MessageArrived, Standing]]:
        """The messages, each written down before it is handed out, with what is known of it.

        Raises:
            UnavailableError: no room, or a broken disk.
        """
        for group in self._groups(messages):
            self._clear()
            self._held = [_digest(message) for message in group]
            try:
                os.pwrite(self._record, bytes.fromhex("".join(self._held)).ljust(len(_NOBODY), b"\0"), 0)
            except OSError as error:
                raise unavailable(self._folder, error) from error
            for message in group:
                yield message, self._standing(message)

    def let_go(self) -> None:
        """Cross out what was handled last, if anything was."""
        if self._held:
            with suppress(OSError):  # a death that comes before this is written would be put down to it, that is all
                os.pwrite(self._record, _NOBODY, 0)
            self._clear()

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

    def _groups(self, messages: Iterable[MessageArrived]) -> Iterator[list[MessageArrived]]:
        """Those of which nothing is known together, every other one alone."""
        group: list[MessageArrived] = []
        for message in messages:
            known = self._is_known(message)
            if group and (known or len(group) == TOGETHER):
                yield group
                group = []
            group.append(message)
            if known:
                yield group
                group = []
        if group:
            yield group

    def _is_known(self, message: MessageArrived) -> bool:
        if not self._deaths and not self._kept:  # nearly always
            return False
        return _digest(message) in self._deaths or _digest(message) in self._kept

    def _standing(self, message: MessageArrived) -> Standing:
        if not self._is_known(message):
            return Standing.CLEAR
        digest = _digest(message)
        deaths = self._deaths.get(digest, 0)
        if digest in self._kept:
            return Standing.UNTOUCHABLE if deaths else Standing.CONDEMNED
        return Standing.CONDEMNED if deaths >= MOST_DEATHS else Standing.CLEAR

    def _clear(self) -> None:
        """What was in hand was survived."""
        survived = [digest for digest in self._held if self._deaths.pop(digest, 0)]
        if survived:
            with suppress(OSError):  # on a broken disk they would have a death too many on their account, that is all
                self._write_deaths()
        self._held = ()

    def _blame(self, digests: Sequence[str]) -> None:
        for digest in digests:
            self._deaths[digest] = self._deaths.pop(digest, 0) + 1
        for forgotten in list(self._deaths)[: max(len(self._deaths) - MOST_REMEMBERED, 0)]:
            del self._deaths[forgotten]
        self._write_deaths()
        deaths = max(self._deaths.get(digest, 0) for digest in digests)
        _log.warning("process_ended_with_messages_in_hand", suspects=len(digests), first=digests[0], deaths=deaths)

    def _write_deaths(self) -> None:
        # Whole or not at all when the process is killed; not flushed to the disk, as above.
        fresh = self._folder / "deaths.json.new"
        fresh.write_bytes(msgspec.json.encode(self._deaths))
        fresh.replace(self._folder / "deaths.json")


def _digest(message: MessageArrived) -> str:
    return message.fingerprint[: 2 * _DIGEST_BYTES]


def _digests_in(record: bytes) -> list[str]:
    """What stands in a record, which may have been cut; zeros are nobody."""
    found = (record[at : at + _DIGEST_BYTES] for at in range(0, len(record), _DIGEST_BYTES))
    return [digest.hex() for digest in found if len(digest) == _DIGEST_BYTES and any(digest)]


def _read_deaths(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}  # never written, or cut by a power cut: nobody is blamed for that
