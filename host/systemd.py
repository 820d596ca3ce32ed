"""Talks to systemd: takes the socket that it holds for a program, and tells it that the program is up and alive.

Without systemd there is no socket, and nobody is told. A socket that systemd holds stays open while one process ends
and the next one starts, so whoever connects then waits a moment instead of being refused. Signs of life come from a
driver's loop, never from a thread of their own: a program whose driver hangs looks alive in every other way.

Source: sd_listen_fds(3), sd_notify(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping

from wire.errors import ConfigError

_FIRST_DESCRIPTOR = 3
"""SD_LISTEN_FDS_START."""


def given_listener(environment: Mapping[str, str], host: str, port: int) -> socket.socket | None:
    """The listening socket that systemd gave this process; None if it gave none.

    Args:
        environment: with ``LISTEN_PID`` and ``LISTEN_FDS``.
        host: where the configuration says that we listen; who may look without a token depends on it.
        port: to listen on.

    Raises:
        ConfigError: it gave several, or one that listens elsewhere.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    many = environment.get("LISTEN_FDS", "")
    if many != "1":
        msg = f"expected one socket from systemd, got {many or 'none'}: one ListenStream= in the .socket unit"
        raise ConfigError(msg)
    os.set_inheritable(_FIRST_DESCRIPTOR, False)  # not for the broker's process or the worker's
    listener = socket.socket(fileno=_FIRST_DESCRIPTOR)
    wanted = _addresses(host, port)
    if listener.getsockname() not in wanted:
        found = listener.getsockname()
        listener.close()
        msg = (
            f"the socket from systemd listens on {found}, the configuration says {host} port {port}: "
            "ListenStream= in the .socket unit and host and port must be the same"
        )
        raise ConfigError(msg)
    return listener


class ServiceManager:
    """Tells systemd how the program is.

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
        self._status = ""

    def turned(self, status: str = "") -> None:
        """The driver's loop turned; the first time means that the program is up.

        Args:
            status: what ``systemctl status`` shows; sent when it changes.
        """
        self._show_life()
        if status != self._status:
            self._status = status
            self._notify(f"STATUS={status}")

    def stopping(self) -> None:
        """The program ends."""
        self._notify("STOPPING=1")

    def _show_life(self) -> None:
        now_s = self._now_s()
        if self._next_s is None:
            self._notify("READY=1")
        elif not self._every_s or now_s < self._next_s:
            return
        else:
            self._notify("WATCHDOG=1")
        self._next_s = now_s + self._every_s

    def _notify(self, message: str) -> None:
        if not self._address:
            return
        # An address that begins with "@" is in the abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # The process that started us may be gone, or too busy to read: that is no reason to end, or to wait.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line,
        ):
            line.sendto(message.encode(), socket.MSG_DONTWAIT, address)


def _addresses(host: str, port: int) -> list[tuple[object, ...]]:
    try:
        return [found[4] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        msg = f"host: cannot find the address of {host}: {error.strerror or error}"
        raise ConfigError(msg) from error
