"""``/live``: server-sent events that tell open pages to refresh; each page then fetches its new content itself.

So pages are rendered in one way, with and without JavaScript, and a page that was hidden for an hour needs no more than
one that was hidden for a second. Each stream occupies a thread of the web server. Therefore streams are few, have their
own threads beside those for requests (:data:`MOST_STREAMS`), and end after a while. A page that gets no stream polls
from time to time. One check for changes serves all streams.

Source: HTML Living Standard, section 9.2, server-sent events.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator

from flask import Blueprint, Response, abort, request

from nightjar.coordinator.access import Role
from nightjar.coordinator.web.admission import needs
from nightjar.wire.errors import UnavailableError

MOST_STREAMS = 16
"""Most pages with a stream at a time, over all users; a hidden page gives its stream up."""
POLL_S = 1.0
"""Interval between checks for changes."""
AT_MOST_EVERY_S = 2.0
"""Shortest interval between two events of a stream: each makes a page refresh."""
HEARTBEAT_S = 15.0
"""Longest silence of a stream; after a longer one, a client or proxy may close the connection."""
STREAM_S = 300.0
"""Lifetime of a stream; then the browser reconnects by itself, and an abandoned stream ends."""
GONE = "waitress.client_disconnected"
"""Key in the WSGI environment: a function that says whether the browser has disconnected, as at each link click."""
AGAIN_MS = 2000
"""How long the browser waits before it reconnects."""


class Pulse:
    """Detects changes that the pages should show: changes of the value that ``read`` returns.

    ``read`` is called at most once per ``poll_s``, and only while someone waits.
    """

    def __init__(self, read: Callable[[], object], poll_s: float = POLL_S) -> None:
        self._read = read
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._process = secrets.token_hex(4)  # after a restart every revision is new
        self._number = 0
        self._found: object = None
        self._polled_at_s = float("-inf")
        self.slots = threading.BoundedSemaphore(MOST_STREAMS)

    def revision(self) -> str:
        """Identifies the current state; differs after any change."""
        with self._lock:
            if time.monotonic() - self._polled_at_s >= self._poll_s:
                try:
                    value = self._read()
                except UnavailableError as error:
                    value = str(error)
                self._polled_at_s = time.monotonic()
                self._number += value != self._found
                self._found = value
            return f"{self._process}-{self._number}"

    def wait(self, seen: str, timeout_s: float, gone: Callable[[], bool] = lambda: False) -> str:
        """Wait until the revision differs from ``seen``, the time is up or the client is gone; return the revision."""
        deadline_s = time.monotonic() + timeout_s
        while (now := self.revision()) == seen and time.monotonic() < deadline_s and not gone():
            if self.rest(self._poll_s):
                break
        return now

    def rest(self, seconds: float) -> bool:
        """Sleep; returns True at once if the pulse is closed."""
        return self._ended.wait(seconds)

    def close(self) -> None:
        """End all streams."""
        self._ended.set()


def add_live(blueprint: Blueprint, pulse: Pulse) -> None:
    """Add the event stream to the pages."""

    @blueprint.get("/live")
    @needs(Role.VIEWER)
    def live() -> Response:
        if not pulse.slots.acquire(blocking=False):
            abort(503, "as many pages are open as may be told of news; this one looks for itself")
        seen = request.headers.get("Last-Event-ID") or request.args.get("seen", "")
        gone = request.environ.get(GONE, lambda: False)
        answer = Response(_events(pulse, seen, gone), content_type="text/event-stream; charset=utf-8")
        answer.headers["X-Accel-Buffering"] = "no"  # a proxy must forward each event at once
        answer.call_on_close(pulse.slots.release)
        return answer


def _events(pulse: Pulse, seen: str, gone: Callable[[], bool]) -> Iterator[str]:
    yield f"retry: {AGAIN_MS}\n\n"
    deadline_s = time.monotonic() + STREAM_S
    while time.monotonic() < deadline_s and not gone():
        now = pulse.wait(seen, HEARTBEAT_S, gone)
        yield "event: beat\ndata: nothing new\n\n" if now == seen else f"id: {now}\ndata: changed\n\n"
        seen = now
        if pulse.rest(AT_MOST_EVERY_S):
            return
