"""``/live``: tells open pages that there is something new, as server-sent events; what it is, they fetch themselves.

So there is one way in which a page is made, with and without JavaScript, and a page that was away for an hour needs no
more than one that was away for a second. A stream holds a thread of the web server while it lasts; therefore there are
few of them, with threads of their own beside those that answer (:data:`MOST_STREAMS`), and each ends after a while. Who
gets none asks again from time to time. Whether there is something new is found out once for all of them.

Source: HTML Living Standard, section 9.2, server-sent events.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator

from flask import Blueprint, Response, abort, request

from coordinator.web.access import Role
from coordinator.web.admission import needs
from wire.errors import UnavailableError

MOST_STREAMS = 16
"""Open pages at a time, of all people; a hidden one lets go of its stream."""
POLL_S = 1.0
"""How soon news is seen."""
AT_MOST_EVERY_S = 2.0
"""A stream tells no more often: each time, a page is fetched."""
HEARTBEAT_S = 15.0
"""A client or proxy that receives nothing for longer may close the connection."""
STREAM_S = 300.0
"""Then the browser connects again by itself, and a stream that nobody reads does not last."""
GONE = "waitress.client_disconnected"
"""In the WSGI environment: says whether the browser has hung up, as it does with every click on a link."""
AGAIN_MS = 2000
"""When it connects again."""


class Pulse:
    """Says whether there is something new.

    Args:
        read: something that differs when there is; asked at most once in ``poll_s``, and only while somebody waits.
        poll_s: see :data:`POLL_S`.
    """

    def __init__(self, read: Callable[[], object], poll_s: float = POLL_S) -> None:
        self._read = read
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._process = secrets.token_hex(4)  # after a restart everything is new
        self._number = 0
        self._found: object = None
        self._polled_at_s = float("-inf")
        self.slots = threading.BoundedSemaphore(MOST_STREAMS)

    def revision(self) -> str:
        """Names the state of things; another one when there is something new."""
        with self._lock:
            if time.monotonic() - self._polled_at_s >= self._poll_s:
                try:
                    found = self._read()
                except UnavailableError as error:
                    found = str(error)
                self._polled_at_s = time.monotonic()
                self._number += found != self._found
                self._found = found
            return f"{self._process}-{self._number}"

    def wait(self, seen: str, timeout_s: float, gone: Callable[[], bool] = lambda: False) -> str:
        """The revision, as soon as it is another one than ``seen``, when the time is over, or who waits is gone."""
        deadline_s = time.monotonic() + timeout_s
        while (now := self.revision()) == seen and time.monotonic() < deadline_s and not gone():
            if self.rest(self._poll_s):
                break
        return now

    def rest(self, seconds: float) -> bool:
        """Do nothing for so long; True at once if everything ends."""
        return self._ended.wait(seconds)

    def close(self) -> None:
        """End all streams."""
        self._ended.set()


def add_live(blueprint: Blueprint, pulse: Pulse) -> None:
    """Give the pages their stream."""

    @blueprint.get("/live")
    @needs(Role.VIEWER)
    def live() -> Response:
        if not pulse.slots.acquire(blocking=False):
            abort(503, "as many pages are open as may be told of news; this one looks for itself")
        seen = request.headers.get("Last-Event-ID") or request.args.get("seen", "")
        gone = request.environ.get(GONE, lambda: False)
        answer = Response(_events(pulse, seen, gone), content_type="text/event-stream; charset=utf-8")
        answer.headers["X-Accel-Buffering"] = "no"  # a proxy must hand each event on at once
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
