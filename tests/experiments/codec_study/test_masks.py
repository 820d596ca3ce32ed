"""Masks: which coordinates are chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.experiments.codec_study.masks import choose_mask
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("embedding", (30, 8)), ParameterSpec("bias", (20,))))


def rng(seed=0):
    return np.random.default_rng(seed)


def last_update():
    return rng(1).standard_normal(LAYOUT.size).astype(np.float32)


@given(st.integers(0, LAYOUT.size), st.floats(0, 1), st.integers(0, 9), st.booleans())
def test_a_mask_has_so_many_different_coordinates_in_order(count, share, seed, first):
    mask = choose_mask(None if first else last_update(), count, share, LAYOUT.size, rng(seed))
    assert mask.size == count
    assert mask.dtype == np.int64
    assert (np.diff(mask) > 0).all()
    assert count == 0 or 0 <= mask[0] <= mask[-1] < LAYOUT.size


def test_the_largest_of_the_last_update_are_in_it_and_the_rest_is_drawn():
    update = last_update()
    order = np.argsort(-np.abs(update))
    masks = [set(choose_mask(update, 40, 0.25, LAYOUT.size, rng(seed)).tolist()) for seed in range(400)]
    assert all(set(order[:30].tolist()) <= mask for mask in masks)
    assert set().union(*masks) == set(range(LAYOUT.size))  # every coordinate can show that it matters


def test_the_same_seed_draws_the_same_mask():
    a, b, c = (choose_mask(last_update(), 40, 0.25, LAYOUT.size, rng(seed)).tolist() for seed in (3, 3, 4))
    assert a == b != c


def test_before_the_first_round_all_is_drawn():
    masks = [set(choose_mask(None, 40, 0.0, LAYOUT.size, rng(seed)).tolist()) for seed in range(400)]
    assert set().union(*masks) == set(range(LAYOUT.size))


def test_more_coordinates_than_parameters_are_a_defect():
    with pytest.raises(LocalProtocolError, match="does not fit"):
        choose_mask(None, LAYOUT.size + 1, 0.1, LAYOUT.size, rng())
