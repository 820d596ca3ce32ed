"""Who shares masks with whom: a ring in which each device knows the nearest half on either side.

It is the Harary graph, which stays connected whichever ``degree - 1`` devices are taken away. So no order of the ring
is a bad one; it is drawn by the session's name all the same, so that neighbours change from round to round.

Sources: Harary 1962, "The maximum connectivity of a graph"; Bell et al. 2020, section 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def neighbours(member: int, cohort: int, degree: int) -> tuple[int, ...]:
    """The neighbours of a place in the roster, ascending; the degree is even, or ``cohort - 1``.

    >>> neighbours(0, 6, 4), neighbours(2, 4, 3)
    ((1, 2, 4, 5), (0, 1, 3))
    """
    if degree == cohort - 1:
        return tuple(other for other in range(cohort) if other != member)
    half = degree // 2
    return tuple(sorted((member + step) % cohort for step in range(-half, half + 1) if step))


def in_order(session: bytes, enrolled: Iterable[bytes]) -> tuple[bytes, ...]:
    """The roster of these enrolled keys: each once, in the order of this session."""
    return tuple(sorted(set(enrolled), key=lambda key: hashlib.sha256(session + key).digest()))
