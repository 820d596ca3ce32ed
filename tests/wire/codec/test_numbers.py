import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.codec.numbers import (
    LARGEST,
    alphabet_for,
    geometric_prior,
    join,
    mean_class,
    rest_widths,
    tokens,
)

some_numbers = st.lists(st.one_of(st.integers(0, 40), st.integers(0, LARGEST)), max_size=50)


@given(some_numbers, st.integers(1, 5))
def test_token_and_rest_are_the_number(values, direct_bits):
    values = np.array(values, np.int64)
    token, rest, width = tokens(values, direct_bits)
    assert (rest_widths(token, direct_bits) == width).all()
    assert ((rest >= 0) & (rest < np.int64(1) << width)).all()
    assert (join(token, rest, direct_bits) == values).all()


@given(st.integers(0, LARGEST - 1), st.integers(1, 5))
def test_tokens_ascend_with_the_numbers(number, direct_bits):
    token = tokens(np.array([number, number + 1]), direct_bits)[0]
    assert token[0] <= token[1] <= token[0] + 1
    assert alphabet_for(number, direct_bits) == token[0] + 1


@given(st.integers(0, 2**36), st.integers(1, 2**28))
def test_a_mean_class_stays_below_eighty(numerator, denominator):
    found = int(mean_class(np.array([numerator]), np.array([denominator]))[0])
    assert 0 <= found < 80


def test_a_geometric_prior_knows_its_mean():
    """The mean number of a class's prior is about the mean that the class stands for."""
    prior = geometric_prior(40, 80, 1 << 24)
    assert prior.min() >= 1
    widths = rest_widths(np.arange(40))
    middles = join(np.arange(40), np.zeros(40, np.int64)) + ((1 << widths) - 1) / 2
    for mean in (1, 3, 10, 100, 1000):
        row = prior[int(mean_class(np.array([mean]), np.array([1]))[0])]
        assert 0.7 * mean < (row * middles).sum() / row.sum() < 1.4 * mean
