"""The schedule of central training's learning rate. Pure."""

from __future__ import annotations


def falling_rate(rate: float, done: float) -> float:
    """The learning rate of central training after a share of the steps, 0 to 1.

    It is constant in the first half, then it falls linearly to a tenth.

    >>> [round(falling_rate(3.0, done), 2) for done in (0.0, 0.5, 0.75, 1.0)]
    [3.0, 3.0, 1.5, 0.3]
    """
    return rate * min(1.0, max(0.1, 2.0 * (1.0 - done)))
