import numpy as np
import pytest

from nightjar.models.configurations import lstm_layout
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.secure_sum.grid import FIRST_SPREAD, Grid, mean_of, spread_in, spread_out, to_words
from nightjar.wire.secure_sum.low_rank import (
    Rank,
    bases_of,
    decode,
    encode,
    from_bytes,
    group_sizes,
    next_average,
    to_bytes,
)

LAYOUT = lstm_layout(40, 6, 10)
RANK = Rank(rows=30, right=2, left=3)
ZEROS = np.zeros(LAYOUT.size, np.float32)
SPREAD = np.linspace(1, 2, len(group_sizes(LAYOUT, RANK)), dtype=np.float32)


def of_rank_one(seed, rows=30):
    """An update whose matrices have rank 1 and no other rows than the first."""
    rng = np.random.default_rng(seed)
    update = rng.standard_normal(LAYOUT.size).astype(np.float32)
    for spec, start, stop in LAYOUT.spans():
        if len(spec.shape) == 2:
            tall, wide = max(spec.shape), min(spec.shape)
            column = rng.standard_normal(tall) * (np.arange(tall) < rows)
            matrix = np.outer(column, rng.standard_normal(wide))
            update[start:stop] = (matrix if spec.shape == matrix.shape else matrix.T).ravel()
    return update


def drawn(seed=0):
    return np.random.default_rng(seed).standard_normal(LAYOUT.size).astype(np.float32)


def bases(average=ZEROS, seed=0):
    return bases_of(average, LAYOUT, RANK, np.random.default_rng(seed))


def test_the_sum_of_encodings_decodes_to_the_encoding_of_the_sum():
    chosen, cohort = bases(drawn(9)), [drawn(seed) for seed in range(5)]
    total = np.sum([encode(update, LAYOUT, chosen) for update in cohort], axis=0)
    expected = decode(encode(np.sum(cohort, axis=0), LAYOUT, chosen), LAYOUT, chosen)
    np.testing.assert_allclose(decode(total, LAYOUT, chosen), expected, rtol=1e-4, atol=1e-4)


def test_decoding_is_the_projection_nearest_to_the_update():
    update, chosen = drawn(), bases(drawn(9))
    found = decode(encode(update, LAYOUT, chosen), LAYOUT, chosen)
    again = decode(encode(found, LAYOUT, chosen), LAYOUT, chosen)
    np.testing.assert_allclose(again, found, atol=0.01)  # bases are rounded to float16
    assert abs(np.dot(found, update - found)) < 0.01 * np.dot(update, update)


def test_an_update_of_the_average_is_found_whole_and_rare_words_are_left_out():
    update = of_rank_one(1)
    chosen = bases(update)
    found = decode(encode(update, LAYOUT, chosen), LAYOUT, chosen)
    np.testing.assert_allclose(found, update, atol=0.02)
    assert not decode(encode(drawn(), LAYOUT, chosen), LAYOUT, chosen)[30 * 6 : 40 * 6].any()


def test_bases_find_a_new_direction_within_a_few_rounds():
    update, average = of_rank_one(2), next_average(ZEROS, of_rank_one(3))
    for seed in range(4):
        chosen = bases(average, seed)
        found = decode(encode(update, LAYOUT, chosen), LAYOUT, chosen)
        average = next_average(average, found)
    assert np.linalg.norm(found - update) < 0.05 * np.linalg.norm(update)


def test_random_bases_follow_from_the_seed():
    one, same, other = (to_bytes(bases(seed=seed), SPREAD) for seed in (1, 1, 2))
    assert one == same != other


def test_there_are_as_many_values_as_the_groups_say():
    values = encode(drawn(), LAYOUT, bases())
    assert values.size == sum(group_sizes(LAYOUT, RANK))
    for wrong in (values[:-1], np.append(values, np.float32(0))):
        with pytest.raises(LocalProtocolError, match="values"):
            decode(wrong, LAYOUT, bases())


def test_bases_and_spread_survive_their_bytes():
    chosen = bases(drawn())
    read, spread = from_bytes(to_bytes(chosen, SPREAD), LAYOUT, RANK)
    for one, other in zip(chosen, read, strict=True):
        np.testing.assert_array_equal(other.right, one.right)
        np.testing.assert_array_equal(other.left, one.left)
    np.testing.assert_array_equal(spread, SPREAD)


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[:-2],
        lambda data: data + b"\0\0",
        lambda data: data[:-1],
        lambda data: data[:-2] + b"\0\x7e",
        lambda data: b"\0\0\0\0" + data[4:],
        lambda data: b"\0\0\xc0\x7f" + data[4:],
    ],
    ids=["short", "long", "odd", "NaN", "zero spread", "NaN spread"],
)
def test_bases_that_do_not_fit_are_refused(harm):
    with pytest.raises(RemoteProtocolError, match="expected bases"):
        from_bytes(harm(to_bytes(bases(), SPREAD)), LAYOUT, RANK)


@pytest.mark.parametrize("average", [ZEROS, drawn(3)], ids=["first", "later"])
def test_a_small_matrix_is_sent_whole_whatever_the_rank(average):
    rank = Rank(rows=50, right=20, left=20)
    chosen = bases_of(average, LAYOUT, rank, np.random.default_rng(0))
    read, _ = from_bytes(to_bytes(chosen, np.ones(len(group_sizes(LAYOUT, rank)), np.float32)), LAYOUT, rank)
    update = drawn()
    np.testing.assert_allclose(decode(encode(update, LAYOUT, read), LAYOUT, read), update, atol=0.02)


@pytest.mark.parametrize("scale", [1e-6, 0.01, 1e3])
def test_the_spread_of_the_grid_finds_the_scale_of_the_updates(scale):
    sizes, rng = (50, 7), np.random.default_rng(0)
    grid, spread = Grid.of(11, 100), np.full(2, FIRST_SPREAD, np.float32)
    update = np.concatenate([scale * rng.standard_normal(50), 20 * scale * rng.standard_normal(7)]).astype(np.float32)
    for _ in range(12):
        words = [to_words(spread_out(update, sizes, spread), 1.0, grid, 11, rng) for _ in range(100)]
        mean = mean_of(np.sum(words, axis=0, dtype=np.uint32) % np.uint32(2**11), grid, 11)
        values, spread = spread_in(mean, sizes, spread)
    assert np.linalg.norm(values - update) < 0.1 * np.linalg.norm(update)


def test_a_silent_group_can_speak_again():
    spread = np.ones(1, np.float32)
    for _ in range(60):
        _, spread = spread_in(np.zeros(3, np.float32), [2], spread)
    assert np.isfinite(spread_out(np.ones(2, np.float32), [2], spread)).all()


def test_a_cohort_too_large_for_the_bits_is_refused():
    with pytest.raises(LocalProtocolError, match="does not fit"):
        Grid.of(7, 100)
