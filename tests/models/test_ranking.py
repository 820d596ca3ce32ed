"""Equal scores are ranked alike on the screen and in every figure: the lower id first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.core import prediction
from nightjar.edge_agent.keyboard.comparison import compare
from nightjar.edge_agent.keyboard.scored_words import best
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.ngram import Trigram, _rank
from nightjar.models.ranking import ranks
from nightjar.models.vocabulary import BOS, FIRST_WORD, Vocabulary
from nightjar.simulation.demo.keyboards import _counts
from tests.lazily import Lazy

VOCABULARY = Vocabulary(tuple("abcdefgh"))
TIED = [1, 3, 3, 2, 3, 3, 0, 2]
"""Scores of the words, most of them as good as another."""
FIRST_THREE = ["b", "c", "e"]

tf, lstm, automatic = Lazy("tensorflow"), Lazy("nightjar.models.lstm"), Lazy("nightjar.models.automatic")


@dataclass(frozen=True)
class Tied:
    """A predictor that always gives these scores."""

    vocabulary: Vocabulary = VOCABULARY
    version: int = 1

    def scores(self, finished):
        return np.array([9.0] * FIRST_WORD + TIED, np.float32)


def tied_weights() -> prediction.Weights:
    """Weights with which every position has these scores, by their biases alone."""
    logits = Tied().scores(())
    size = len(logits)
    # f = 0, o = 1, g = 0.5 in every cell, so m = tanh(0.5); the projection scales it to the scores.
    bias = np.concatenate([np.full(size, -50.0), np.full(size, 50.0), np.full(size, np.arctanh(0.5))])
    kernel = np.zeros((size, 3 * size), np.float32)
    projection = np.diag(logits / np.float32(np.tanh(0.5)))
    return prediction.Weights(np.eye(size, dtype=np.float32), kernel, kernel, bias.astype(np.float32), projection)


def batch_of(word: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array([[BOS]], np.int32), np.array([[word]], np.int32)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_the_rank_is_the_place_in_a_stable_sort(values):
    scores = np.array(values, np.float32)
    order = np.argsort(-scores, kind="stable")
    found = ranks(np.tile(scores, (len(values), 1)), order.astype(np.int64))
    assert found.tolist() == list(range(len(values)))


def test_a_score_that_is_no_number_counts_against_the_model():
    scores = np.array([[np.nan, 1, 2]] * 3, np.float32)
    assert ranks(scores, np.arange(3)).tolist() == [3, 2, 1]


def test_the_screen_shows_the_lower_ids_first():
    assert [VOCABULARY.words[n] for n in best(np.float32(TIED), np.arange(len(TIED)), 3)] == FIRST_THREE
    assert list(Suggester(Tied()).suggest("").words) == FIRST_THREE
    assert list(compare(Tied(version=0), Tied(), ["a b c d"]).places[0].now) == FIRST_THREE


@pytest.mark.parametrize("word", VOCABULARY.words)
def test_every_figure_counts_the_words_that_the_screen_shows(word):
    number = VOCABULARY.id_of(word)
    expected = float(word in FIRST_THREE[:1]), float(word in FIRST_THREE)
    on_device = prediction.score(tied_weights(), *batch_of(number))
    assert (on_device.top1, on_device.top3) == expected
    assert _counts(Tied(), [word])[1:] == expected
    assert Suggester(Tied()).recall(word)[1:] == expected

    empty, none = np.zeros(0), np.zeros(0, np.int64)
    shares = np.array([0.0] * FIRST_WORD + TIED) + 0.1
    flat = np.ones(VOCABULARY.size)
    ngram = Trigram(VOCABULARY.size, shares, none, empty, flat, none, empty, none, empty, none, none)
    assert [_rank(ngram.after(BOS, BOS), number) < most for most in (1, 3)] == [bool(each) for each in expected]


@pytest.mark.tensorflow
@pytest.mark.parametrize("word", VOCABULARY.words)
def test_tensorflow_counts_the_same(word):
    number = VOCABULARY.id_of(word)
    expected = float(word in FIRST_THREE[:1]), float(word in FIRST_THREE)
    graph = lstm.LstmTensors(*(tf.constant(part) for part in tied_weights()))
    found = lstm.score(graph, *(tf.constant(part) for part in batch_of(number)))
    assert (float(found.top1), float(found.top3)) == expected
    rank = float(automatic.rank_of_target(tf.constant([number - FIRST_WORD]), tf.constant([TIED], tf.float32))[0])
    assert (rank < 1, rank < 3) == expected


@pytest.mark.tensorflow
def test_the_examples_of_a_version_are_the_words_that_the_screen_shows():
    from nightjar.models.evaluation import best_words

    shape = ModelConfiguration("tied", max_vocabulary=12, embedding=12, hidden=12, batch_rows=1, sequence_length=4)
    vector = np.concatenate([part.ravel() for part in tied_weights()])
    (three,) = best_words(vector, shape, VOCABULARY.size, [[]])
    assert [VOCABULARY.word(number) for number in three] == FIRST_THREE
