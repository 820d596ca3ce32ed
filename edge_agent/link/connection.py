"""The agent's connection as people see it: whether it is connected, since when, and why not.

Writes the log and the fact that ``nightjar-agent status`` reads. While the coordinator refuses this device, the
broker's errors are not logged: they say nothing new, and come once a minute.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
import structlog

from nightjar.wire.errors import UnavailableError

FACT = "connection"
"""Name of the fact in the database."""


class ConnectionState(msgspec.Struct, frozen=True):
    """Whether the broker is connected, since when (seconds since 1970 UTC), and why not (empty if it is)."""

    connected: bool
    since_s: float
    reason: str = ""


def decoded(stored: str | None) -> ConnectionState | None:
    """The stored state; None if there is none.

    >>> decoded('{"connected":false,"since_s":7.0,"reason":"no broker"}').reason
    'no broker'
    """
    return None if not stored else msgspec.json.decode(stored, type=ConnectionState)


class Connection:
    """Notes changes of the connection; for the driver's thread."""

    def __init__(
        self,
        wall_s: Callable[[], float],
        remember: Callable[[str], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._wall_s, self._remember, self._log = wall_s, remember, log
        self._state: ConnectionState | None = None
        self._refused = ""

    def begin(self) -> None:
        """A new process: not connected yet."""
        self._note(connected=False, reason="it has not connected yet")

    def up(self) -> None:
        """The broker accepted us."""
        self._refused = ""
        self._log.info("broker_connected")
        self._note(connected=True, reason="")

    def down(self, reason: str) -> None:
        """The broker cannot be reached, or refused us."""
        if not self._refused:
            self._log.warning("broker_unreachable", reason=reason, again="with back-off, for ever")
            self._note(connected=False, reason=reason)

    def told(self, refusal: str) -> None:
        """The coordinator's answer over HTTPS: why it refuses this device; empty if it does not."""
        if refusal != self._refused:
            if refusal:
                self._log.error("refused_by_coordinator", reason=refusal, again="until it lets this device in")
                self._note(connected=False, reason=refusal)
            else:
                self._log.info("accepted_by_coordinator")
            self._refused = refusal

    def _note(self, *, connected: bool, reason: str) -> None:
        before = self._state
        same = before is not None and before.connected == connected
        since_s = before.since_s if same and before is not None else self._wall_s()
        self._state = ConnectionState(connected, since_s, reason)
        if self._state != before:
            with contextlib.suppress(UnavailableError):  # a full disk is reported where it matters
                self._remember(msgspec.json.encode(self._state).decode())
