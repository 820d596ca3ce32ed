import numpy as np
import pytest

from coordinator.learning.unmasking import unmasked_sum
from coordinator.rounds.secure_sum import Unmask
from tests.secure_sums import PRIMITIVES, terms
from wire.errors import RemoteProtocolError
from wire.secure_sum import masks


@pytest.mark.parametrize("bits", [3, 16, 24])
def test_self_masks_and_the_pair_masks_of_dropped_devices_are_removed(bits):
    agreed = terms(bits=bits)
    selves, dropped, other = (b"a" * 16, b"b" * 16), b"d" * 16, PRIMITIVES.derive(b"other", b"", 32)
    public = PRIMITIVES.public_key(other)
    pair = masks.pair_mask_seed(masks.mask_key(dropped, PRIMITIVES), public, agreed, PRIMITIVES)
    updates = [np.arange(20, dtype=np.uint32) % 2**bits, np.full(20, 2**bits - 1, np.uint32)]
    seeds = [[(1, masks.self_mask_seed(seed, PRIMITIVES))] for seed in selves]
    seeds[1].append((masks.sign_of(5, 2), pair))  # member 5, with member 2 that has dropped out
    masked = [
        masks.pack(update + masks.total_mask(each, agreed, PRIMITIVES), agreed)
        for update, each in zip(updates, seeds, strict=True)
    ]
    plan = Unmask(terms=agreed, members=(0, 5), self_seeds=selves, dropped={2: (dropped, {5: public})})
    total = unmasked_sum(plan, iter(masked), PRIMITIVES)
    np.testing.assert_array_equal(total, (updates[0] + updates[1]) % 2**bits)
    with pytest.raises(RemoteProtocolError):
        unmasked_sum(plan, [masked[0], masked[1][:-1]], PRIMITIVES)
