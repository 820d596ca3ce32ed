"""Asks a slow question again and again without making anybody wait for it: the last answer, and how old it is.

At most one question is under way. A question that fails is an answer too: the reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from wire.errors import UnavailableError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Said(Generic[T]):
    """What came of a question.

    Attributes:
        answer: None if there is none.
        reason: why there is none.
        age_s: seconds since then.
    """

    answer: T | None
    reason: str
    age_s: float


class Background(Generic[T]):
    """A question that is asked in a thread of its own.

    Args:
        ask: the question; raises UnavailableError if there is no answer.
        every_s: from one answer to the next question.
        now_s: seconds on a clock that does not jump.
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
        """The last answer; asks again if it is time to. Does not wait."""
        with self._lock:
            now_s = self._now_s()
            due = self._at_s is None or now_s - self._at_s >= self._every_s
            if due and self._thread is None:
                self._thread = threading.Thread(target=self._find_out, name="probe", daemon=True)
                self._thread.start()
            return Said(self._answer, self._reason, 0.0 if self._at_s is None else now_s - self._at_s)

    def wait(self, timeout_s: float) -> None:
        """Wait for the question that is under way, if there is one."""
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
            # What a program prints is not ours: nonsense is no answer, and must not end the asking.
            reason = f"not understood ({type(error).__name__})"
        with self._lock:
            self._answer, self._reason, self._at_s, self._thread = answer, reason, self._now_s(), None
