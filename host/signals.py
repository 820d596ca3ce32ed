"""Signals that ask a process to end in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

AWAKE_S = 1.0
"""Interval at which the main thread checks for a signal that was delivered to another thread."""


@contextlib.contextmanager
def noticed_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, instead of ending the process."""
    over = threading.Event()
    former = {
        number: signal.signal(number, lambda _number, _frame: over.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield over
    finally:  # a second ctrl-C ends the process at once
        for number, handler in former.items():
            signal.signal(number, handler)
