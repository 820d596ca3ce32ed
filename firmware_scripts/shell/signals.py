"""Turns ctrl-C and SIGTERM into an event that threads poll, so that no exception interrupts their work."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event


@contextmanager
def set_by_signals(stop: Event) -> Iterator[None]:
    """Make SIGINT and SIGTERM only set ``stop`` inside this block. Main thread only."""
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
