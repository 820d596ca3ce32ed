"""Tells systemd that the agent is up and its driver turns (sd_notify(3)). Without systemd nobody listens.

The watchdog is petted by the driver's own loop, once for each turn, never by a thread of its own: an agent whose driver
hangs looks alive in every other way.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Mapping


class ServiceManager:
    """The line to systemd.

    Args:
        environment: ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` of the process.
        now_s: seconds on a clock that does not jump.
    """

    def __init__(self, environment: Mapping[str, str], now_s: Callable[[], float] = time.monotonic) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        # systemd counts from each sign of life; a third leaves two that may be late.
        self._every_s = int(environment.get("WATCHDOG_USEC") or 0) / 1e6 / 3
        self._now_s = now_s
        self._next_s: float | None = None
        self._connected: bool | None = None

    def turned(self, *, connected: bool | None = None) -> None:
        """The driver's loop turned; the first time means that the agent is up.

        Whether the broker is reached becomes the unit's status text, by which a new release of the agent is judged.
        """
        self._show_life()
        if connected is not self._connected:
            self._connected = connected
            self._say(f"STATUS={'connected' if connected else 'not connected'} to the broker")

    def _show_life(self) -> None:
        now_s = self._now_s()
        if self._next_s is None:
            self._say("READY=1")
        elif not self._every_s or now_s < self._next_s:
            return
        else:
            self._say("WATCHDOG=1")
        self._next_s = now_s + self._every_s

    def stopping(self) -> None:
        """The agent ends."""
        self._say("STOPPING=1")

    def _say(self, message: str) -> None:
        if not self._address:
            return
        # An address that begins with "@" is in the abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # Whoever started us may be gone, or too busy to read: that is no reason to end, or to wait.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line,
        ):
            line.sendto(message.encode(), socket.MSG_DONTWAIT, address)
