"""Seeds from the shares that were given back, and who is to blame for wrong ones. Pure.

Each dealer committed to each share (:func:`nightjar.wire.secure_sum.messages.share_commitment`). A share that does not
fit was given back wrong, or sealed wrong for its receiver; either way it is left out, however many there are, and the
seed is found where as many right ones as the threshold are left. Of the two devices, either may lie. With fewer
colluders than the threshold t:

- a dealer of whom t receivers give back no right share dealt wrong ones, as one of the t is honest;
- a receiver that gives back no right share of t dealers lies, as one of these is honest;
- a dealer whose committed shares do not give the seed that it sent first dealt wrong ones, whoever gives them back.

A seed of which fewer than t right shares are left is missing, and the sum is over. Where most shares were lost because
devices fell silent, fewer than t wrong ones can do that, and nobody is blamed: either side may have lied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum import shamir

DEALT_WRONG = "it dealt wrong shares of its seeds"
GAVE_BACK_WRONG = "it gave back wrong shares"


class DisclosedShare(NamedTuple):
    """A dealer's share as its receiver gives it back.

    Attributes:
        right: whether it is what the dealer committed to; None if it only says that there is such a dealer.
    """

    dealer: int
    receiver: int
    share: bytes
    right: bool | None


class Recovered(NamedTuple):
    """What came of the shares.

    Attributes:
        seeds: by dealer.
        missing: how many right shares there are, by dealer whose seed cannot be found.
        blamed: why, by member.
    """

    seeds: dict[int, bytes]
    missing: dict[int, int]
    blamed: dict[int, str]


def recovered(shares: Iterable[DisclosedShare], threshold: int, fits: Callable[[int, bytes], bool]) -> Recovered:
    """The seeds of all dealers, as far as they can be found; ``fits`` tells whether a seed is that of a dealer."""
    right: dict[int, dict[int, bytes]] = {}
    wrong_of: dict[int, int] = {}
    wrong_by: dict[int, int] = {}
    for each in shares:
        held = right.setdefault(each.dealer, {})
        if each.right:
            held[shamir.point_of(each.receiver)] = each.share
        elif each.right is not None:
            wrong_of[each.dealer] = wrong_of.get(each.dealer, 0) + 1
            wrong_by[each.receiver] = wrong_by.get(each.receiver, 0) + 1
    blamed = {member: GAVE_BACK_WRONG for member, count in wrong_by.items() if count >= threshold}
    blamed |= {member: DEALT_WRONG for member, count in wrong_of.items() if count >= threshold}
    seeds, missing = {}, {}
    for dealer, held in right.items():
        seed = _seed(held, threshold, partial(fits, dealer))
        if seed is not None:
            seeds[dealer] = seed
            continue
        missing[dealer] = len(held)
        if len(held) >= threshold:
            blamed[dealer] = DEALT_WRONG
    return Recovered(seeds, missing, blamed)


def _seed(shares: dict[int, bytes], threshold: int, fits: Callable[[bytes], bool]) -> bytes | None:
    """The seed of as many shares as the threshold; as many sets are tried as there are shares."""
    given = list(shares.items()) if len(shares) >= threshold else []
    for begin in range(len(given)):
        try:
            seed = shamir.combine(dict((given[begin:] + given[:begin])[:threshold]))
        except RemoteProtocolError:
            continue
        if fits(seed):
            return seed
    return None
