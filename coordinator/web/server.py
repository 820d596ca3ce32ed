"""The HTTP server around the application, and how it ends: nobody who is being answered is cut off.

waitress sends in one loop and answers in threads. At the end it takes no new connection any more, answers what has
come, and then closes what is left. With a socket of systemd's (:mod:`host.systemd`) whoever
connects meanwhile waits in that socket's queue for the next process.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from waitress.channel import HTTPChannel  # type: ignore[import-untyped] # waitress has no types
from waitress.server import create_server  # type: ignore[import-untyped]

from coordinator.web.admission import MOST_BODY_BYTES
from coordinator.web.live import MOST_STREAMS
from host.http_server import HttpServer
from wire.errors import ConfigError

THREADS = 8
"""waitress sends in its main loop, so slow devices do not hold threads; streams have threads beside these."""
CONNECTIONS = 2000
"""At once; beyond it others wait to be accepted. A cohort fetches a new version at the same moment."""
MOST_HEADER_BYTES = 1 << 14
REQUEST_S = 10.0
"""Longest time from a request's first byte to its last: what is allowed takes milliseconds on a slow line."""
IDLE_S = 30
"""A connection on which nothing moves for so long is closed: phones come and go."""
DRAIN_S = 5.0
"""Longest wait at the end for answers under way; a device goes on with a longer one where it was cut."""
FRESH_S = 1.0
"""A new connection is about to send its request."""
STOP_TIMEOUT_S = 10.0
_LOOK_S = 0.02


@contextmanager
def serving(
    app: Callable[..., Any], host: str, port: int, listener: socket.socket | None = None, trusted_proxy: str = ""
) -> Iterator[None]:
    """Serve as long as the block lasts.

    Args:
        app: a WSGI application.
        host: to listen on.
        port: to listen on.
        listener: listens there already; closed in the end.
        trusted_proxy: its address, or ``*`` for any: what it says of who asks, and over which scheme, is believed.

    Raises:
        ConfigError: one cannot listen there.
    """
    connections: dict[int, Any] = {}
    server = create_server(
        app,
        map=connections,
        sockets=[_listen(host, port) if listener is None else listener],
        threads=THREADS + MOST_STREAMS,
        connection_limit=CONNECTIONS,
        channel_timeout=IDLE_S,
        channel_request_lookahead=1,  # so that a stream learns at once that its browser is gone
        asyncore_use_poll=True,  # select() knows 1,024 descriptors, and no more
        ident="nightjar",
        clear_untrusted_proxy_headers=True,
        # Or it would spool a gigabyte into a file before the application is asked; it refuses the size that is given.
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


class _Connection(HTTPChannel):  # type: ignore[misc] # waitress has no types
    """Ends when a request takes too long to come; waitress ends only those on which nothing comes at all."""

    request_began_s = 0.0

    def received(self, data: bytes) -> bool:
        """Take some bytes; waitress calls this."""
        now_s = time.monotonic()
        if self.request is None:
            self.request_began_s = now_s
        elif now_s - self.request_began_s > REQUEST_S:
            self.will_close = True
            return False
        return bool(super().received(data))


def _believed(trusted_proxy: str) -> dict[str, Any]:
    if not trusted_proxy:
        return {}
    headers = {"x-forwarded-for", "x-forwarded-proto"}
    return {"trusted_proxy": trusted_proxy, "trusted_proxy_count": 1, "trusted_proxy_headers": headers}


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        msg = f"cannot listen on {host} port {port}: {error.strerror or error}; give another port"
        raise ConfigError(msg) from error


def _drain(server: Any) -> None:
    accepted = threading.Event()

    def accept_no_more() -> None:
        knocking = select.poll()
        knocking.register(server.socket, select.POLLIN)
        for _ in range(CONNECTIONS):  # connections that were accepted by now are ours
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
    """Whether somebody is being answered, is still asking, or has connected and is about to ask."""
    fresh = channel.last_activity == channel.creation_time and time.time() - channel.creation_time < FRESH_S  # noqa: TID251 - waitress' clock
    return bool(channel.requests or channel.request or channel.total_outbufs_len or fresh)
