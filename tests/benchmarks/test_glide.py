from __future__ import annotations

import numpy as np
import pytest

from nightjar.benchmarks.glide import glide, measure
from nightjar.edge_agent.keyboard.correction import key_centres


@pytest.mark.parametrize("error", ["points", "keys"])
def test_glide_goes_from_the_first_key_to_the_last(error):
    keys = key_centres("en")
    lines = [glide("don't", error, np.random.default_rng(seed)) for seed in range(200)]
    for place, letter in ((0, "d"), (-1, "t")):
        np.testing.assert_allclose(np.mean([line[place] for line in lines], axis=0), keys[letter], atol=0.1)
        np.testing.assert_allclose(np.std([line[place] for line in lines], axis=0), 0.25, atol=0.05)


def test_four_of_five_common_words_are_understood_at_first():
    for row in measure(words=60, seed=3):
        assert row["words"] == 60
        assert row["three_share"] >= row["first_share"] >= 0.8
