"""Polls a slow question in a background thread; callers get the last answer and its age without blocking.

At most one question is in progress. A failed question counts as an answer too: the reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from nightjar.wire.errors import UnavailableError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Said(Generic[T]):
    """The latest answer, why there is none (then it is None), and the seconds since it came or failed."""

    answer: T | None
    reason: str
    age_s: float


class Background(Generic[T]):
    """A question that is asked again and again in a thread of its own.

    ``ask`` raises UnavailableError if there is no answer; ``every_s`` is from one answer to the next question.
    """

    def __init__(self, ask: Callable[[], T], every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._every_s = every_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._answer: T | None = None
        self._reason = "asked for the first time just now"
        self._at_s: float | None = None

    def latest(self) -> Said[T]:
        """The last answer; starts the next question if it is due. Does not block."""
        with self._lock:
            now_s = self._now_s()
            due = self._at_s is None or now_s - self._at_s >= self._every_s
            if due and self._thread is None:
                self._thread = threading.Thread(target=self._find_out, name="probe", daemon=True)
                self._thread.start()
            return Said(self._answer, self._reason, 0.0 if self._at_s is None else now_s - self._at_s)

    def wait(self, timeout_s: float) -> None:
        """Wait for the question in progress, if there is one."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _find_out(self) -> None:
        answer, reason = None, ""
        try:
            answer = self._ask()
        except UnavailableError as error:
            reason = str(error)
        except Exception as error:
            # We do not control what a program prints: unexpected output is no answer and must not stop the polling.
            reason = f"not understood ({type(error).__name__})"
        with self._lock:
            self._answer, self._reason, self._at_s, self._thread = answer, reason, self._now_s(), None
