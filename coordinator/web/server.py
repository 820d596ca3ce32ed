"""The HTTP server of the application, with a graceful shutdown: requests in progress are answered first.

waitress sends in one loop and runs the application in threads. On shutdown it accepts no new connections, answers the
requests that have arrived, and then closes the remaining connections. With a socket from systemd
(:mod:`nightjar.host.systemd`), clients that connect meanwhile wait in the socket's queue for the next process.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from waitress.channel import HTTPChannel  # type: ignore[import-untyped] # waitress has no types
from waitress.server import create_server  # type: ignore[import-untyped]

from nightjar.coordinator.control_socket import OPERATOR, listening
from nightjar.coordinator.tls.front import OUR_END, PEER_PORT
from nightjar.coordinator.web.admission import COMMAND_OF, MOST_BODY_BYTES
from nightjar.coordinator.web.live import MOST_STREAMS
from nightjar.host.http_server import HttpServer
from nightjar.host.local_peers import user_of_connection
from nightjar.wire.errors import ConfigError, rewording

THREADS = 8
"""Threads for requests. waitress sends in its main loop, so slow devices do not occupy threads; streams have their
own."""
CONNECTIONS = 2000
"""Most simultaneous connections; others wait to be accepted. A cohort fetches a new version all at once."""
MOST_HEADER_BYTES = 1 << 14
REQUEST_S = 10.0
"""Longest time from a request's first byte to its last; a request of allowed size takes milliseconds on a slow line."""
IDLE_S = 30
"""An idle connection is closed after this time: phones often disappear without closing theirs."""
DRAIN_S = 5.0
"""Longest wait on shutdown for answers in progress; a device resumes a longer download where it was cut off."""
FRESH_S = 1.0
"""A connection younger than this is expected to send its request soon."""
STOP_TIMEOUT_S = 10.0
_LOOK_S = 0.02
_OPERATOR = f"HTTP_{OPERATOR.upper().replace('-', '_')}"  # its name in an environment; RFC 3875, 4.1.18


@contextmanager
def serving(
    app: Callable[..., Any], host: str, port: int, listener: socket.socket | None = None, trusted_proxy: str = ""
) -> Iterator[None]:
    """Serve for the duration of the block.

    Args:
        app: a WSGI application.
        host: address to listen on.
        port: port to listen on.
        listener: socket that is listening already; closed at the end.
        trusted_proxy: address of a proxy, or ``*`` for any, whose headers on client address and scheme are trusted.

    Raises:
        ConfigError: cannot listen on this address and port.
    """
    connections: dict[int, Any] = {}
    listening_on = _listen(host, port) if listener is None else listener
    ours = listening_on.getsockname()[:2]  # of a Unix socket: nothing that is compared with an address

    def reached(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        environ[OUR_END] = ours
        return app(environ, start_response)

    server = create_server(
        reached,
        map=connections,
        sockets=[listening_on],
        threads=THREADS + MOST_STREAMS,
        connection_limit=CONNECTIONS,
        channel_timeout=IDLE_S,
        channel_request_lookahead=1,  # so that a stream notices at once that its browser disconnected
        asyncore_use_poll=True,  # select() handles at most 1,024 descriptors
        ident="nightjar",
        clear_untrusted_proxy_headers=True,
        # Otherwise waitress would spool up to a gigabyte into a file before it calls the application. It refuses this
        # size itself, hence the + 1.
        max_request_body_size=MOST_BODY_BYTES + 1,
        max_request_header_size=MOST_HEADER_BYTES,
        **_believed(trusted_proxy),
    )
    server.channel_class = _Connection
    running = HttpServer(server, connections, "web")
    try:
        yield
    finally:
        _drain(server)
        running.close(STOP_TIMEOUT_S)


@contextmanager
def serving_commands(app: Callable[..., Any], data_dir: Path) -> Iterator[None]:
    """Serve on the socket for commands for the duration of the block; each request has its operator's rights.

    Raises:
        ConfigError: the socket cannot be made.
    """

    def asked(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        environ[COMMAND_OF] = unquote(environ.get(_OPERATOR, ""))
        return app(environ, start_response)

    with listening(data_dir) as listener, serving(asked, "localhost", 0, listener):
        yield


class _Connection(HTTPChannel):  # type: ignore[misc] # waitress has no types
    """A connection that is closed if a request takes too long to arrive; waitress closes only idle ones."""

    request_began_s = 0.0

    def received(self, data: bytes) -> bool:
        """Process received bytes; called by waitress."""
        now_s = time.monotonic()
        if self.request is None:
            self.request_began_s = now_s
        elif now_s - self.request_began_s > REQUEST_S:
            self.will_close = True
            return False
        return bool(super().received(data))


def asked_by_this_user(environ: Mapping[str, Any]) -> bool:
    """Whether a request came from a process of this machine's root or of the service's own user."""
    if COMMAND_OF in environ:
        return True  # nobody else can open the socket for commands
    port = str(environ.get(PEER_PORT, environ.get("REMOTE_PORT")))
    ours = environ.get(OUR_END)
    if not port.isdecimal() or not isinstance(ours, tuple):
        return False
    return user_of_connection((environ.get("REMOTE_ADDR", ""), int(port)), ours) in {0, os.geteuid()}


def _believed(trusted_proxy: str) -> dict[str, Any]:
    if not trusted_proxy:
        return {}
    headers = {"x-forwarded-for", "x-forwarded-proto"}
    return {"trusted_proxy": trusted_proxy, "trusted_proxy_count": 1, "trusted_proxy_headers": headers}


def _listen(host: str, port: int) -> socket.socket:
    with rewording(ConfigError, f"cannot listen on {host} port {port}", "give another port"):
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)


def _drain(server: Any) -> None:
    accepted = threading.Event()

    def accept_no_more() -> None:
        knocking = select.poll()
        knocking.register(server.socket, select.POLLIN)
        for _ in range(CONNECTIONS):  # take the connections that the kernel has accepted by now
            if not knocking.poll(0):
                break
            server.handle_accept()
        server.accepting = False
        accepted.set()

    server.trigger.pull_trigger(accept_no_more)
    deadline_s = time.monotonic() + DRAIN_S
    accepted.wait(DRAIN_S)
    while time.monotonic() < deadline_s and any(_is_busy(channel) for channel in list(server.active_channels.values())):
        time.sleep(_LOOK_S)


def _is_busy(channel: Any) -> bool:
    """Whether a request is being answered, is still arriving, or is expected on a new connection."""
    fresh = channel.last_activity == channel.creation_time and time.monotonic() - channel.creation_time < FRESH_S
    return bool(channel.requests or channel.request or channel.total_outbufs_len or fresh)
