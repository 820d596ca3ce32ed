"""Serves the keyboard on a port: waitress in a thread of its own, with a handle that stops it.

It does not depend on the application. TLS and accounts are deliberately absent, so it serves the loopback address only:
on any other, typed text would cross a network in the clear.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

from flask import Flask
from waitress.server import create_server  # type: ignore[import-untyped]  # it ships no types

from nightjar.edge_agent.config import KEYBOARD_HOST
from nightjar.host.http_server import HttpServer

# One thread for the person who types; the others for a second browser tab, and for slow clients.
THREADS = 4
MOST_HEADER_BYTES = 1 << 14


class Serving:
    """A running server.

    Attributes:
        port: the port in use, even if any free port was requested.
        url: address of the page, for the user.
    """

    def __init__(self, app: Flask, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.url = f"http://{KEYBOARD_HOST}:{self.port}/"
        # A browser opens more connections at once than there are threads; a short wait is not worth a warning.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        connections: dict[int, Any] = {}
        server = create_server(
            app,
            map=connections,
            sockets=[listener],
            threads=THREADS,
            asyncore_use_poll=True,  # select() fails where the process has more than 1,024 descriptors
            ident=None,
            max_request_body_size=app.config["MAX_CONTENT_LENGTH"] + 1,  # otherwise any web site could fill the disk
            max_request_header_size=MOST_HEADER_BYTES,
        )
        self._server = HttpServer(server, connections, "keyboard")

    def close(self) -> None:
        """Finish the requests in progress, close all connections, and free the port. A second call does nothing."""
        self._server.close()
