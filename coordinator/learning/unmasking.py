"""Adds up masked updates and removes the masks that do not cancel. Arithmetic modulo 2**bits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coordinator.rounds.secure_sum import Unmask
from wire.secure_sum import masks
from wire.secure_sum.primitives import Primitives


def unmasked_sum(plan: Unmask, updates: Iterable[bytes], primitives: Primitives) -> masks.Words:
    """The sum of the updates.

    Args:
        plan: which masks to remove.
        updates: the masked updates of ``plan.members``, in any order; one is held at a time.
        primitives: the cryptography.

    Returns:
        (values,) uint32, modulo 2**bits.

    Raises:
        RemoteProtocolError: an update does not have the right length.
    """
    terms = plan.terms
    total = np.zeros(terms.values, np.uint32)
    for data in updates:
        total += masks.unpack(data, terms)
    total -= masks.total_mask(_uncancelled(plan, primitives), terms, primitives)
    return total & np.uint32(2**terms.bits - 1)


def _uncancelled(plan: Unmask, primitives: Primitives) -> Iterable[tuple[int, bytes]]:
    for seed in plan.self_seeds:
        yield 1, masks.self_mask_seed(seed, primitives)
    for member, (seed, neighbours) in plan.dropped.items():
        private = masks.mask_key(seed, primitives)
        for other, public in neighbours.items():
            yield masks.sign_of(other, member), masks.pair_mask_seed(private, public, plan.terms, primitives)
