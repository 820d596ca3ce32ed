import numpy as np
import pytest

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.secure_sum import masks
from tests.secure_sums import PRIMITIVES, terms


@pytest.mark.parametrize("bits", range(1, 33))
def test_values_survive_packing(bits):
    agreed = terms(values=37, bits=bits)
    values = np.random.default_rng(bits).integers(0, 2**bits, 37, dtype=np.uint32)
    data = masks.pack(values, agreed)
    assert len(data) == masks.packed_bytes(agreed) == (37 * bits + 7) // 8
    np.testing.assert_array_equal(masks.unpack(data, agreed), values)


def test_bytes_of_another_length_are_refused():
    with pytest.raises(RemoteProtocolError):
        masks.unpack(bytes(41), terms(values=20, bits=16))


@pytest.mark.parametrize("bits", [5, 16, 20, 32])
def test_the_masks_of_a_pair_cancel(bits):
    agreed = terms(bits=bits)
    one, other = (PRIMITIVES.derive(name, b"", 32) for name in (b"one", b"other"))
    seed = masks.pair_mask_seed(one, PRIMITIVES.public_key(other), agreed, PRIMITIVES)
    assert seed == masks.pair_mask_seed(other, PRIMITIVES.public_key(one), agreed, PRIMITIVES)
    added = masks.total_mask([(masks.sign_of(3, 8), seed)], agreed, PRIMITIVES)
    subtracted = masks.total_mask([(masks.sign_of(8, 3), seed)], agreed, PRIMITIVES)
    assert added.any()
    assert not (added + subtracted).any()


@pytest.mark.parametrize(
    "values", [np.zeros(19, np.uint32), np.zeros(20, np.int64), np.full(20, 2**16, np.uint32)], ids=str
)
def test_an_update_that_does_not_fit_is_our_own_defect(values):
    with pytest.raises(LocalProtocolError):
        masks.check_values(values, terms())


def test_a_commitment_fits_one_seed():
    assert masks.commitment(b"a" * 16, PRIMITIVES) == masks.commitment(b"a" * 16, PRIMITIVES)
    assert masks.commitment(b"a" * 16, PRIMITIVES) != masks.commitment(b"b" * 16, PRIMITIVES)
    assert masks.commitment(b"a" * 16, PRIMITIVES) != masks.self_mask_seed(b"a" * 16, PRIMITIVES)
