"""Runs a server of waitress in a thread of its own, and ends it: waitress has no way of its own to close connections.

The caller makes the server, with whatever it serves; nothing of waitress or of an application is imported here.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any


class HttpServer:
    """A server that runs.

    Args:
        server: what ``waitress.server.create_server`` returned.
        connections: the ``map`` that it was made with: its sockets by their descriptors.
        name: of the thread.
    """

    def __init__(self, server: Any, connections: dict[int, Any], name: str) -> None:
        self._server, self._connections = server, connections
        self._thread = threading.Thread(target=server.run, name=name, daemon=True)
        self._thread.start()

    def close(self, timeout_s: float | None = None) -> None:
        """Finish what is being answered, close every connection, and free the port. A second call does nothing."""
        if not self._thread.is_alive():
            return
        self._server.task_dispatcher.shutdown()
        # The loop runs as long as there is a connection, and clients keep theirs open. Its own thread must close them:
        # it may be waiting on them just now.
        with contextlib.suppress(OSError):  # awake just now, it has closed them before it could be woken
            self._server.trigger.pull_trigger(self._close_connections)
        self._thread.join(timeout_s)

    def _close_connections(self) -> None:
        for channel in list(self._server.active_channels.values()):
            channel.handle_close()  # with what it had still to send
        for connection in list(self._connections.values()):
            connection.close()
