from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.correction import key_centres
from nightjar.edge_agent.keyboard.glide import COMPARED, Paths, resampled
from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.models.lexicon import fold, read_lexicon, write_lexicon

KEYS = key_centres("en")
CENTRES = np.array([*KEYS.values()], np.float32)
WORDS = ["the", "they", "hello", "help", "don't", "café", "a", "aa", "42", "ёлка", "to", "too"]


def line(word, keys=KEYS):
    return np.array([keys[letter] for letter in word], np.float32)


def likeliest(word):
    numbers, costs = Paths(WORDS, "".join(KEYS)).costs(line(word), CENTRES)
    return [WORDS[at] for at in numbers[np.argsort(costs, kind="stable")]]


@pytest.mark.parametrize(("drawn", "word"), [("helo", "hello"), ("they", "they"), ("dont", "don't"), ("cafe", "café")])
def test_straight_line_over_the_keys_means_the_word(drawn, word):
    assert likeliest(drawn)[0] == word


def test_words_of_the_same_keys_cost_the_same_and_other_ends_are_never_meant():
    assert likeliest("to") == ["to", "too"]
    assert likeliest("qp") == []


def test_words_that_have_no_line_are_never_meant():
    assert not {"a", "42", "ёлка"} & set(likeliest("as"))
    for words in ([], ["a"], ["42"]):
        numbers, costs = Paths(words, "".join(KEYS)).costs(line("the"), CENTRES)
        assert (len(numbers), len(costs)) == (0, 0)


def test_no_more_words_are_compared_than_the_limit():
    many = [f"t{middle}e" for middle in ("h" * n for n in range(1, 3 * COMPARED))]
    numbers, costs = Paths(many, "".join(KEYS)).costs(line("the"), CENTRES)
    assert len(numbers) == len(costs) == COMPARED


def test_letter_with_a_key_of_its_own_is_glided_there():
    keys = {"u": (0.0, 0.0), "ü": (4.0, 0.0), "b": (2.0, 0.0)}
    paths = Paths(["ub", "üb"], "".join(keys))
    for drawn in (["u", "b"], ["ü", "b"]):
        numbers, _ = paths.costs(line(drawn, keys), np.array([*keys.values()], np.float32))
        assert [["ub", "üb"][at] for at in numbers] == ["".join(drawn)]


coordinates = st.tuples(*[st.floats(-100, 100, width=32)] * 2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(coordinates, min_size=2, max_size=30),
    st.dictionaries(st.characters(), coordinates, min_size=1, max_size=64),
)
def test_any_line_over_any_keys_costs_finite_nats(points, keys):
    numbers, costs = Paths([*WORDS, *keys], "".join(keys)).costs(
        np.array(points, np.float32), np.array([*keys.values()], np.float32)
    )
    assert np.isfinite(costs).all()
    assert (numbers < len(WORDS) + len(keys)).all()


def test_line_that_stands_still_stays_there():
    assert resampled(np.ones((1, 3, 2), np.float32), 4).tolist() == [[[1, 1]] * 4]


def test_own_words_and_the_words_before_decide_with_the_line():
    listed = read_lexicon(write_lexicon("en", {"pit": 1e-4, "put": 1e-3, "zit": 1e-6}))
    suggester = Suggester(lexicon=lambda _: listed)
    between = [(9.0, 0.0), (6.5, 0.0), (4.0, 0.0)]
    assert suggester.glide("", between, KEYS, language="en").words[0] == "put"
    suggester.replace_own_words([OwnWord("pout", "Pout", 9)])
    assert suggester.glide("so", line("pout").tolist(), KEYS, language="en").words[0] == "Pout"


def test_glides_with_errors_are_understood():
    listed = read_lexicon(
        write_lexicon("en", dict.fromkeys(["hello", "there", "world", "three", "tree", "word"], 1e-3))
    )
    suggester, generator = Suggester(lexicon=lambda _: listed), np.random.default_rng(1)
    for word in listed.text.decode().split():
        points = line(fold(word)) + generator.normal(0, 0.15, (len(word), 2))
        assert word in suggester.glide("", points.tolist(), KEYS, language="en").words[:2]
