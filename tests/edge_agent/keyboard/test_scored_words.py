import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.scored_words import UNLISTED_SHARE, ModelWords, Part, best
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.models.vocabulary import Vocabulary


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


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 40)))
def test_words_that_are_never_offered_are_left_out_in_order(among, never):
    part = Part(None, None, None, np.array(sorted(never), np.int64))
    assert part.allowed(np.array(sorted(among), np.int64)).tolist() == sorted(among - never)


FIRST_KEYS = """
import sys
import numpy as np
from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.models.vocabulary import Vocabulary
from tests.edge_agent.keyboard.test_scored_words import Saying
words = [f"the{number}" for number in range(3_000)]
predictor = Saying(*np.zeros(4 + len(words)))
predictor.vocabulary = Vocabulary(words)
suggester = Suggester(predictor, [OwnWord("ada", "Ada", 20), *(OwnWord(word, word, 0) for word in words[::100])])
before = {*sys.modules}
for text in ("", "the", "the12", "teh", "teh ", "koe"):
    suggester.suggest(text, language="de")
print(*sorted({*sys.modules} - before))
"""


def test_no_key_waits_for_an_import():
    done = subprocess.run([sys.executable, "-c", FIRST_KEYS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


class Saying:
    """A predictor that always gives these scores."""

    vocabulary, version = Vocabulary(("the", "cat")), 1

    def __init__(self, *scores):
        self._scores = np.array(scores, np.float32)

    def scores(self, finished):
        return self._scores


def test_the_probability_of_a_word_outside_the_vocabulary_is_what_the_predictor_says():
    found = ModelWords(Saying(-1e9, 9, 9, np.log(2), np.log(1), np.log(1))).after(())
    assert found.unlisted == pytest.approx(0.5)
    np.testing.assert_allclose(np.exp(found.scores), [0.5, 0.5], rtol=1e-5)


@pytest.mark.parametrize("score", [-1e9, -np.inf, np.nan])
def test_a_predictor_that_says_nothing_of_such_words_gets_a_share_of_them(score):
    assert ModelWords(Saying(0, 0, 0, score, 0, 0)).after(()).unlisted == UNLISTED_SHARE


def test_own_words_come_where_words_outside_the_vocabulary_are_foreseen():
    rare, common = (Suggester(Saying(0, 0, 0, np.log(p), *np.log([1, 0.2]))) for p in (0.1, 20.0))
    for suggester in (rare, common):
        suggester.replace_own_words([OwnWord("ada", "Ada", 20)])
    assert (rare.suggest("").words[0], common.suggest("").words[0]) == ("the", "Ada")
