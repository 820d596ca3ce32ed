"""Runs a waitress server in a thread of its own, and stops it: waitress itself has no way to close its connections.

The caller creates the server with its application.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import waitress.channel  # type: ignore[import-untyped]  # it ships no types
import waitress.server  # type: ignore[import-untyped]


class _SteadyTime:
    """What waitress knows of the module ``time``; a later one may well ask for the steady clock itself."""

    time = monotonic = staticmethod(time.monotonic)


# waitress waits by the wall clock. Once that was a year ahead, it would close no idle connection for a year, and who
# opens some and leaves them would take them all.
waitress.channel.time = waitress.server.time = _SteadyTime


class HttpServer:
    """A running server.

    ``server`` is the result of ``waitress.server.create_server``, and ``connections`` the ``map`` that it was created
    with: its sockets by descriptor.
    """

    def __init__(self, server: Any, connections: dict[int, Any], name: str) -> None:
        self._server, self._connections = server, connections
        # waitress names the path of a request whose client has gone, also of one that it could not read, which has
        # none: anybody could fill the log with its tracebacks.
        channel, parser = server.channel_class, server.channel_class.parser_class
        parser = type(parser.__name__, (parser,), {"path": ""})
        server.channel_class = type(channel.__name__, (channel,), {"parser_class": parser})
        self._thread = threading.Thread(target=server.run, name=name, daemon=True)
        self._thread.start()

    def close(self, timeout_s: float | None = None) -> None:
        """Finish the requests in progress, close all connections, and free the port. A second call does nothing."""
        if not self._thread.is_alive():
            return
        self._server.task_dispatcher.shutdown()
        # The server's loop runs while there are connections, and clients keep theirs open. The loop's own thread must
        # close them, because it may be waiting on them right now.
        with contextlib.suppress(OSError):  # the loop may already have closed them
            self._server.trigger.pull_trigger(self._close_connections)
        self._thread.join(timeout_s)

    def _close_connections(self) -> None:
        for channel in list(self._server.active_channels.values()):
            channel.handle_close()  # discards unsent data
        for connection in list(self._connections.values()):
            connection.close()
