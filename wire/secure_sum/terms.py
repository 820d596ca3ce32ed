"""The terms of a session: the numbers that all its devices must know and sign for, and what follows from them."""

from __future__ import annotations

import hashlib
import itertools
from typing import Annotated

import msgspec
from msgspec import Meta

MOST_MEMBERS = 1000
MOST_VALUES = 2**24
SESSION_BYTES = 32

_VERSION = b"nightjar secure sum 1\n"


def threshold_for(minimum: int) -> int:
    """The threshold of a task with this minimum: with a third, half as many devices again as the minimum may take part.

    >>> threshold_for(3), threshold_for(60)
    (2, 20)
    """
    return max(2, minimum // 3)


def least_minimum(cohort: int) -> int:
    """The smallest minimum of a task that selects so many devices: with fewer, one round could have two sums.

    >>> least_minimum(5), least_minimum(26), least_minimum(100)
    (4, 16, 60)
    """
    return next(minimum for minimum in itertools.count(3) if 2 * minimum - threshold_for(minimum) >= cohort)


def honest_devices(minimum: int, threshold: int) -> int:
    """Fewest devices of a sum that do not collude."""
    return minimum - threshold + 1


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the devices of a session agree on.

    Attributes:
        session: identifies the session; no device joins the same one twice.
        threshold: t; fewer than t devices and the coordinator together learn nothing but the sum.
        minimum: fewest reports in the sum; as many devices must stay until the end.
        values: length of an update.
        bits: b; updates are added modulo 2**b.
    """

    session: Annotated[bytes, Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
    threshold: Annotated[int, Meta(ge=2, le=MOST_MEMBERS)]
    minimum: Annotated[int, Meta(ge=3, le=MOST_MEMBERS)]
    values: Annotated[int, Meta(ge=1, le=MOST_VALUES)]
    bits: Annotated[int, Meta(ge=1, le=32)]

    def __post_init__(self) -> None:
        if not 2 <= self.threshold < self.minimum <= MOST_MEMBERS:
            msg = f"expected a threshold from 2 to below the minimum, got {self.threshold} and {self.minimum}"
            raise ValueError(msg)

    @property
    def largest_cohort(self) -> int:
        """Most devices in a roster: with more, the minimum would be too few for a quorum."""
        return min(2 * self.minimum - self.threshold, MOST_MEMBERS)

    def degree(self, cohort: int) -> int:
        """Number of neighbours of each device: even, or all the others.

        Of these, all that may drop out and all that may collude can be taken away, and one is left.

        >>> terms = Terms(session=bytes(32), threshold=20, minimum=70, values=1, bits=16)
        >>> terms.degree(100), terms.degree(71), terms.quorum(100)
        (50, 22, 60)
        """
        needed = self.threshold + cohort - self.minimum
        return min(needed + needed % 2, cohort - 1)

    def quorum(self, cohort: int) -> int:
        """Number of signatures that two different lists cannot both have: two quorums share ``threshold`` members."""
        return (cohort + self.threshold + 1) // 2

    @property
    def digest(self) -> bytes:
        """(32,) a hash that everything signed or derived in the session depends on."""
        return hashlib.sha256(_VERSION + msgspec.msgpack.encode(self)).digest()
