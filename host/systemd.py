"""systemd integration: socket activation, readiness and watchdog notifications.

Without systemd there is no socket, and notifications do nothing. A socket that systemd holds stays open between the end
of one process and the start of the next, so clients that connect in between wait a moment instead of being refused.
Watchdog notifications come from the driver's loop, never from a separate thread: a program whose driver hangs would
otherwise look alive.

Source: sd_listen_fds(3), sd_notify(3).
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping

from nightjar.wire.errors import ConfigError

_FIRST_DESCRIPTOR = 3
"""SD_LISTEN_FDS_START in systemd."""


def given_listener(environment: Mapping[str, str], host: str, port: int) -> socket.socket | None:
    """The listening socket that systemd passed to this process; None if there is none.

    The host decides who may read without a token, so the socket must match it. The environment holds ``LISTEN_PID`` and
    ``LISTEN_FDS``.

    Raises:
        ConfigError: systemd passed several sockets, or one that listens elsewhere.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = environment.get("LISTEN_FDS", "")
    if count != "1":
        msg = f"expected one socket from systemd, got {count or 'none'}: one ListenStream= in the .socket unit"
        raise ConfigError(msg)
    os.set_inheritable(
        _FIRST_DESCRIPTOR, False
    )  # child processes, such as the broker and the worker, must not inherit it
    listener = socket.socket(fileno=_FIRST_DESCRIPTOR)
    wanted = _addresses(host, port)
    if listener.getsockname() not in wanted:
        bound = listener.getsockname()
        listener.close()
        msg = (
            f"the socket from systemd listens on {bound}, the configuration says {host} port {port}: "
            "ListenStream= in the .socket unit and host and port must be the same"
        )
        raise ConfigError(msg)
    return listener


def stored_listener(environment: Mapping[str, str], name: str, host: str, port: int) -> socket.socket | None:
    """The listening socket that an earlier process of this service left with systemd; None if there is none.

    See :meth:`ServiceManager.store`. One that listens elsewhere is closed: the configuration has changed.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    names = environment.get("LISTEN_FDNAMES", "").split(":")[: int(environment.get("LISTEN_FDS") or 0)]
    found = None
    for descriptor, each in enumerate(names, _FIRST_DESCRIPTOR):
        if each != name:
            continue
        os.set_inheritable(descriptor, False)
        listener = socket.socket(fileno=descriptor)
        if found is None and listener.getsockname() in _addresses(host, port):
            found = listener
        else:
            listener.close()
    return found


class ServiceManager:
    """Sends the program's state to systemd.

    The environment holds ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC``; ``now_s`` is a clock that does not jump, in seconds.
    """

    def __init__(self, environment: Mapping[str, str], now_s: Callable[[], float] = time.monotonic) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        # systemd restarts its timer at each notification; at a third of the timeout, two may be late.
        self._every_s = int(environment.get("WATCHDOG_USEC") or 0) / 1e6 / 3
        self._now_s = now_s
        self._next_s: float | None = None
        self._status = ""

    def turned(self, status: str = "") -> None:
        """Report an iteration of the driver's loop; the first call means that the program is up.

        ``status`` is what ``systemctl status`` shows; it is sent when it changes.
        """
        self._show_life()
        if status != self._status:
            self._status = status
            self._notify(f"STATUS={status}")

    def stopping(self) -> None:
        """Report that the program is stopping."""
        self._notify("STOPPING=1")

    def store(self, listener: socket.socket, name: str) -> None:
        """Leave a listening socket with systemd, which keeps it while the service restarts: nobody can take its port.

        The unit needs ``FileDescriptorStoreMax=``. A socket that was left under this name before is given up.
        """
        self._notify(f"FDSTOREREMOVE=1\nFDNAME={name}")
        self._notify(f"FDSTORE=1\nFDNAME={name}", listener.fileno())

    def _show_life(self) -> None:
        now_s = self._now_s()
        if self._next_s is None:
            self._notify("READY=1")
        elif not self._every_s or now_s < self._next_s:
            return
        else:
            self._notify("WATCHDOG=1")
        self._next_s = now_s + self._every_s

    def _notify(self, message: str, *descriptors: int) -> None:
        if not self._address:
            return
        # An address that begins with "@" is in the abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # The service manager may be gone, or too busy to read: that is no reason to fail or to block.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line,
        ):
            handed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            line.sendmsg([message.encode()], handed, socket.MSG_DONTWAIT, address)


def _addresses(host: str, port: int) -> list[tuple[object, ...]]:
    try:
        return [entry[4] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        msg = f"host: cannot find the address of {host}: {error.strerror or error}"
        raise ConfigError(msg) from error
