"""Serves the keyboard on a port: waitress in a thread of its own, with a handle that stops it.

It does not depend on the application. TLS and accounts are deliberately absent, so it serves loopback addresses only:
on any other address, typed text would cross a network in the clear.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

from flask import Flask
from waitress.server import create_server  # type: ignore[import-untyped]  # it ships no types

from host.http_server import HttpServer
from wire.addresses import is_loopback
from wire.errors import ConfigError

# One thread for the person who types; the others for a second browser tab, and for slow clients.
THREADS = 4
MOST_HEADER_BYTES = 1 << 14


class Serving:
    """A running server.

    Attributes:
        host: the host it serves on.
        port: the port in use, even if any free port was requested.
    """

    def __init__(self, app: Flask, listener: socket.socket, host: str) -> None:
        self.host = host
        self.port: int = listener.getsockname()[1]
        # A browser opens more connections at once than there are threads; a short wait is not worth a warning.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        connections: dict[int, Any] = {}
        server = create_server(
            app,
            map=connections,
            sockets=[listener],
            threads=THREADS,
            ident=None,
            max_request_body_size=app.config["MAX_CONTENT_LENGTH"] + 1,  # otherwise any web site could fill the disk
            max_request_header_size=MOST_HEADER_BYTES,
        )
        self._server = HttpServer(server, connections, "keyboard")

    @property
    def url(self) -> str:
        """Address of the page, for the user."""
        return f"http://[{self.host}]:{self.port}/" if ":" in self.host else f"http://{self.host}:{self.port}/"

    def close(self) -> None:
        """Finish the requests in progress, close all connections, and free the port. A second call does nothing."""
        self._server.close()


def serve(app: Flask, host: str, port: int) -> Serving:
    """Serve an application until :meth:`Serving.close`.

    Args:
        app: the application.
        host: ``localhost`` or another loopback address.
        port: TCP port; 0 picks a free one.

    Raises:
        ConfigError: the port is in use, forbidden or invalid, or the host is not loopback.
    """
    if not is_loopback(host):
        msg = (
            f"expected a loopback address such as 127.0.0.1 to serve the keyboard on, got {host!r}: nothing that is "
            f"typed may cross a network. To type from another machine: ssh -L {port or 8700}:127.0.0.1:{port or 8700}"
        )
        raise ConfigError(msg)
    if not 0 <= port <= 65_535:
        msg = f"expected a keyboard port from 0 to 65535, got {port}"
        raise ConfigError(msg)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        msg = (
            f"expected to serve the keyboard on {host} port {port}, got: {error}; "
            "stop the program that holds the port, or set another host or port in the [keyboard] table of the "
            "agent's configuration"
        )
        raise ConfigError(msg) from error
    return Serving(app, listener, host)
