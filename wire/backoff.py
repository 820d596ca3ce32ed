"""How long to wait before trying again: exponential back-off with jitter, so that a fleet does not return all at once.

Source: Marc Brooker, "Exponential Backoff And Jitter", 2015 ("equal jitter"). Holds no count and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackOff:
    """Doubling waits, each spread over its upper half.

    Attributes:
        first_s: the longest that the first wait can be.
        most_s: the longest that any wait can be.
    """

    first_s: float
    most_s: float

    def delay_s(self, tries: int, jitter: float) -> float:
        """Seconds to wait after the given number of tries.

        >>> [BackOff(2.0, 60.0).delay_s(tries, 0.0) for tries in (1, 2, 3, 99)]
        [1.0, 2.0, 4.0, 30.0]

        Args:
            tries: how often it was tried, from 1.
            jitter: in [0, 1), from a random source.

        Returns:
            Between half of the longest wait for this try and all of it.
        """
        # 2**62 is beyond any wait; the bound keeps the float from overflowing.
        longest_s = min(self.most_s, self.first_s * 2.0 ** min(max(tries, 1) - 1, 62))
        return longest_s * (0.5 + 0.5 * jitter)
