"""Exponential back-off with jitter, so that a fleet does not retry all at once.

Source: Marc Brooker, "Exponential Backoff And Jitter", 2015 ("equal jitter"). Keeps no count and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackOff:
    """Doubling waits, each with jitter over its upper half.

    No first wait is longer than ``first_s``, and none at all than ``most_s``.
    """

    first_s: float
    most_s: float

    def delay_s(self, tries: int, jitter: float) -> float:
        """Seconds to wait after so many tries, from 1: half to all of the longest wait; ``jitter`` is random in [0, 1).

        >>> [BackOff(2.0, 60.0).delay_s(tries, 0.0) for tries in (1, 2, 3, 99)]
        [1.0, 2.0, 4.0, 30.0]
        """
        # The bound keeps the float from overflowing; 2**62 exceeds any wait.
        longest_s = min(self.most_s, self.first_s * 2.0 ** min(max(tries, 1) - 1, 62))
        return longest_s * (0.5 + 0.5 * jitter)
