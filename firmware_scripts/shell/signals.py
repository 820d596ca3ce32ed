"""Ctrl-C, and a polite request to end, as an event that the threads look at: no exception in the middle of anything."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event


@contextmanager
def set_by_signals(stop: Event) -> Iterator[None]:
    """While this lasts, SIGINT and SIGTERM set ``stop`` and do nothing else. Only for the main thread."""
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
