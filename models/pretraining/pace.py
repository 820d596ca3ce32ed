"""Lines of progress, every few seconds, readable in a terminal and in a log."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY_S = 5.0


class Paced:
    """Says how far a training is, at most once in :data:`EVERY_S` and at its end, and how long the rest may take."""

    def __init__(self, say: Callable[[str], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._now_s = now_s
        self._begun: tuple[str, float, int] | None = None  # what, when and at which step it began here
        self._said_s = 0.0

    def __call__(self, what: str, done: int, steps: int) -> None:
        """After each step."""
        now_s = self._now_s()
        if self._begun is None or self._begun[0] != what:
            self._begun, self._said_s = (what, now_s, done - 1), now_s
        if now_s - self._said_s < EVERY_S and done < steps:
            return
        self._said_s = now_s
        _, begun_s, before = self._begun
        left_s = (now_s - begun_s) / (done - before) * (steps - done)
        self._say(f"{what}: step {done:,} of {steps:,} ({100 * done // steps} %), {left_s / 60:.1f} minutes left")
