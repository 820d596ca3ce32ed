import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum.shamir import (
    COEFFICIENT_BYTES,
    NO_SHARE,
    PRIME,
    SHARE_BYTES,
    combine,
    is_share,
    point_of,
    split,
)

SECRETS = st.binary(min_size=16, max_size=16)


def shares_of(secret, threshold, points, seed=b"r"):
    randomness = (seed * (threshold * COEFFICIENT_BYTES))[: (threshold - 1) * COEFFICIENT_BYTES]
    return dict(zip(points, split(secret, threshold, points, randomness), strict=True))


@given(SECRETS, st.integers(2, 8), st.data())
def test_any_threshold_of_shares_gives_the_secret(secret, threshold, data):
    points = [point_of(member) for member in range(12)]
    shares = shares_of(secret, threshold, points, data.draw(st.binary(min_size=1, max_size=9)))
    chosen = data.draw(st.permutations(points))[:threshold]
    assert combine({point: shares[point] for point in chosen}) == secret


@given(SECRETS, SECRETS)
def test_one_share_too_few_fits_every_secret(secret, other):
    shares = shares_of(secret, 4, [1, 2, 3, 4, 5], b"x")
    held = {point: int.from_bytes(shares[point], "little") for point in (1, 3, 5)}
    # The value at 2 of the polynomial through what is held and the other secret: a share that would give the other.
    through, value = {**held, 0: int.from_bytes(other, "little")}, 0
    for at, height in through.items():
        for root in through:
            if root != at:
                height = height * (2 - root) * pow(at - root, -1, PRIME) % PRIME
        value += height
    forged = (value % PRIME).to_bytes(SHARE_BYTES, "little")
    assert combine({**{point: shares[point] for point in held}, 2: forged}) == other


def test_shares_whose_secret_would_be_longer_than_a_seed_are_refused():
    with pytest.raises(RemoteProtocolError):
        combine({1: (2**128).to_bytes(SHARE_BYTES, "little"), 2: bytes(SHARE_BYTES)})  # 2 * 2**128 - 0


def test_a_missing_share_is_no_number_of_the_field():
    assert not is_share(NO_SHARE)
    assert is_share(bytes(SHARE_BYTES))
    assert not is_share(PRIME.to_bytes(SHARE_BYTES, "little"))
