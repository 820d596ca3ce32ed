"""The line to systemd: its socket for us, and our signs of life for it. Without systemd nobody gives or listens.

A socket that systemd holds (sd_listen_fds(3)) stays open while one process ends and the next one starts, so whoever
connects then waits a moment instead of being refused. Signs of life (sd_notify(3)) come from the driver's loop, never
from a thread of their own: a coordinator whose driver hangs looks alive in every other way.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from wire.errors import ConfigError

READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"
_FIRST_DESCRIPTOR = 3
"""SD_LISTEN_FDS_START."""


def given_listener(environment: Mapping[str, str], host: str, port: int) -> socket.socket | None:
    """The listening socket that systemd gave this process; None if it gave none.

    Args:
        environment: with ``LISTEN_PID`` and ``LISTEN_FDS``.
        host: where the configuration says that we listen; who may look without a token depends on it.
        port: likewise.

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


def say(message: str, environment: Mapping[str, str]) -> None:
    """Tell systemd, at the address in ``NOTIFY_SOCKET``, if there is one."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # in the abstract namespace
        address = "\0" + address[1:]
    # Whoever started us may be gone, or too busy to read: that is no reason to end, or to wait.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        line.sendto(message.encode(), socket.MSG_DONTWAIT, address)


def _addresses(host: str, port: int) -> list[tuple[object, ...]]:
    try:
        return [found[4] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        msg = f"host: cannot find the address of {host}: {error.strerror or error}"
        raise ConfigError(msg) from error
