"""The modelled form: exact for every shape and count, near its own ideal, and nothing but a refusal for lies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.models.configurations import configuration
from nightjar.wire.codec import modelled
from nightjar.wire.codec.modelled import lanes_for
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from tests.wire.strategies import layouts

MATRIX = ParameterLayout((ParameterSpec("a", (50, 40)),))
GBOARD = configuration("gboard").layout(10_000)
TINY = configuration("tiny").layout(2_000)


def rng(seed=0):
    return np.random.default_rng(seed)


def round_trip(indices, levels, layout, most):
    """The bytes, after checking that they are read as what was written."""
    indices = np.asarray(indices, np.int64)
    coded = modelled.encode(indices, levels, layout, most)
    got, got_levels = modelled.decode(coded.data, indices.size, layout, most=most)
    assert (got == indices).all()
    assert got.dtype == np.int64
    assert (got_levels == levels).all()
    return coded


def structured(layout, count, seed):
    """Positions as a real update has them: most of them in a few rows and columns."""
    generator, weight = rng(seed), []
    for spec in layout.tensors:
        rows, columns = (spec.shape[0], spec.size // spec.shape[0]) if len(spec.shape) > 1 else (1, spec.size)
        loud = generator.pareto(0.7, (rows, 1)) * generator.pareto(1.5, (1, columns))
        weight.append((loud * np.abs(generator.standard_normal((rows, columns)))).ravel())
    return np.sort(np.argpartition(np.concatenate(weight), -count)[-count:])


@st.composite
def sparse_vectors(draw, most):
    layout = draw(layouts)
    chosen = np.flatnonzero(draw(st.lists(st.booleans(), min_size=layout.size, max_size=layout.size)))
    levels = draw(st.lists(st.integers(-most, most), min_size=chosen.size, max_size=chosen.size))
    return layout, chosen, np.array(levels, np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 7, 127, 2**32 - 1])
def test_positions_and_levels_come_back(most):
    @given(sparse_vectors(most))
    def check(case):
        layout, chosen, levels = case
        round_trip(chosen, levels, layout, most)

    check()


@pytest.mark.slow
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 9))
def test_any_count_of_any_number_of_parameters(n, k, seed):
    layout = ParameterLayout((ParameterSpec("v", (n,)),) if n else ())
    indices = np.sort(rng(seed).choice(n, min(k, n), replace=False)) if n else np.zeros(0, np.int64)
    round_trip(indices, rng(seed).integers(-7, 8, indices.size), layout, 7)


ADVERSARIAL = {
    "nothing": [],
    "the first": [0],
    "the last": [1999],
    "everything": range(2000),
    "all in one row": range(840, 880),
    "all in one column": range(17, 2000, 40),
    "one in each row": [40 * row + row * 7 % 40 for row in range(50)],
    "one in each column": sorted(40 * (column * 3 % 50) + column for column in range(40)),
    "every second": range(0, 2000, 2),
    "all but one": [i for i in range(2000) if i != 777],
    "one row and one column": sorted({*range(840, 880), *range(17, 2000, 40)}),
    "a square": [40 * row + column for row in range(20, 30) for column in range(10, 20)],
}


@pytest.mark.parametrize("indices", ADVERSARIAL.values(), ids=ADVERSARIAL)
@pytest.mark.parametrize("level", [0, 1, -7, None], ids=["zeros", "ones", "largest", "mixed"])
def test_adversarial_positions_and_levels(indices, level):
    size = len(indices)
    levels = rng().integers(-7, 8, size) if level is None else np.full(size, level)
    round_trip(indices, levels, MATRIX, 7)


@pytest.mark.parametrize("layout", [TINY, GBOARD], ids=["tiny", "gboard"])
@pytest.mark.parametrize("count", [1, 79, 80, 1000, 20_479, 20_480, 30_000])
def test_the_shapes_of_both_models(layout, count):
    round_trip(structured(layout, count, 1), rng(2).integers(-7, 8, count), layout, 7)


@pytest.mark.parametrize("index", range(len(GBOARD.tensors)))
def test_all_positions_in_one_tensor_of_the_model(index):
    _, start, stop = GBOARD.spans()[index]
    chosen = start + np.sort(rng(3).choice(stop - start, min(stop - start, 2000), replace=False))
    round_trip(chosen, rng(4).integers(-7, 8, chosen.size), GBOARD, 7)


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [[(50_000, 100)], [(5_000_000,)], [(2500, 1000), (1000, 2499), (1000,)]])
@pytest.mark.parametrize("count", [0, 1, 50_000, pytest.param(5_000_000, marks=pytest.mark.verify)])
def test_five_million_parameters(shapes, count):
    layout = ParameterLayout(tuple(ParameterSpec(f"t{i}", shape) for i, shape in enumerate(shapes)))
    assert layout.size == 5_000_000
    chosen = np.sort(rng().choice(layout.size, count, replace=False))
    round_trip(chosen, rng().integers(-7, 8, count), layout, 7)


@pytest.mark.parametrize(("density", "most"), [(0.001, 7), (0.01, 7), (0.01, 127), (0.05, 7)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_length_is_within_two_percent_of_the_ideal_of_its_own_model(density, most, seed):
    count = round(density * GBOARD.size)
    levels = np.clip(np.round(rng(seed).standard_normal(count) * most / 3), -most, most).astype(np.int64)
    coded = round_trip(structured(GBOARD, count, seed), levels, GBOARD, most)
    assert 8 * len(coded.data) <= 1.02 * coded.ideal_bits
    assert 0 < coded.position_bits < coded.ideal_bits


def test_row_structure_is_worth_its_coding():
    """Positions of a structured update cost far less than those of an even one, which cost what they must."""
    count = GBOARD.size // 100
    even = np.sort(rng(5).choice(GBOARD.size, count, replace=False))
    levels = np.ones(count, np.int64)
    bits = [modelled.encode(p, levels, GBOARD, 7).position_bits / count for p in (structured(GBOARD, count, 6), even)]
    assert bits[0] < 0.75 * bits[1]
    assert bits[1] < 8.08 * 1.02  # log2 of n over k at one percent


def test_the_same_input_gives_the_same_bytes_and_is_not_modified():
    indices, levels = structured(TINY, 500, 7), rng(8).integers(-7, 8, 500)
    for array in (indices, levels):
        array.setflags(write=False)
    a, b = (modelled.encode(indices, levels, TINY, 7).data for _ in range(2))
    assert a == b


@pytest.mark.parametrize(
    ("count", "lanes"),
    [(0, 1), (79, 1), (160, 2), (10**6, 256)],
)
def test_lanes_are_few_where_signs_are_few(count, lanes):
    assert lanes_for(count) == lanes


@settings(max_examples=150)
@given(st.binary(max_size=120), st.integers(0, 60))
def test_any_bytes_are_positions_or_a_protocol_error(data, count):
    try:
        indices, levels = modelled.decode(data, count, MATRIX, most=7)
    except RemoteProtocolError:
        return
    assert indices.size == levels.size == count
    assert (np.diff(indices) > 0).all()
    assert indices.size == 0 or (indices[0] >= 0 and indices[-1] < MATRIX.size)
    assert np.abs(levels).max(initial=0) <= 7


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 255), st.integers(0, 3))
def test_a_changed_byte_is_refused_or_read_as_a_valid_vector(place, change, seed):
    indices, levels = structured(TINY, 200, seed), rng(seed).integers(-7, 8, 200)
    data = bytearray(modelled.encode(indices, levels, TINY, 7).data)
    data[place % len(data)] ^= change
    try:
        got, got_levels = modelled.decode(bytes(data), 200, TINY, most=7)
    except RemoteProtocolError:
        return
    assert got.size == 200
    assert (np.diff(got) > 0).all()
    assert np.abs(got_levels).max() <= 7
