import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.scored_words import best


def test_scores_that_are_not_finite_are_never_chosen():
    scores = np.array([0, 0, 0, 0, np.nan, np.inf, 1, -np.inf, 2], np.float32)
    assert best(scores, np.arange(4, 9), 3).tolist() == [8, 6]


@given(
    st.lists(st.floats(-9, 9, width=32).map(round), min_size=1, max_size=40),
    st.integers(1, 10),
    st.randoms(use_true_random=False),
)
def test_best_is_the_head_of_a_whole_sort(values, count, random):
    scores = np.array(values, np.float32)
    candidates = sorted(random.sample(range(len(values)), random.randint(0, len(values))))
    expected = sorted(candidates, key=lambda number: (-values[number], number))[:count]
    assert best(scores, np.array(candidates, np.int64), count).tolist() == expected
