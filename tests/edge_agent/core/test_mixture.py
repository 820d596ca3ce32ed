import numpy as np
import pytest

from nightjar.edge_agent.core.mixture import FIRST_WORDS, Mixture
from nightjar.edge_agent.core.own_history import Blended
from nightjar.models.compact_ngram import compile_ngram, read_ngram
from nightjar.models.vocabulary import BOS, FIRST_WORD, Vocabulary
from nightjar.wire.errors import UnavailableError

VOCABULARY = Vocabulary(("the", "cat", "sat"))
PUBLIC = "the cat sat"
NGRAM = read_ngram(compile_ngram([VOCABULARY.encode(PUBLIC.split())] * 9, VOCABULARY.size), VOCABULARY.size)
FOREIGN = "cat the"


class Uniform:
    vocabulary = VOCABULARY
    version = 3

    def scores(self, finished):
        return np.full(VOCABULARY.size, 7.0, np.float32)  # up to a constant


CONTEXTS = [
    ([], (BOS, BOS)),
    (["the"], (BOS, FIRST_WORD)),
    (["the", "cat"], (FIRST_WORD, FIRST_WORD + 1)),
]


@pytest.mark.parametrize(("finished", "context"), CONTEXTS)
def test_it_begins_with_the_mean_of_both_probabilities(finished, context):
    mixed = Mixture(Uniform(), NGRAM).scores(finished)
    expected = (1 / VOCABULARY.size + NGRAM.after(*context)) / 2
    np.testing.assert_allclose(np.exp(mixed), expected, rtol=1e-5)
    assert mixed.dtype == np.float32


def test_the_weight_follows_the_users_text():
    like, unlike = (Mixture(Uniform(), NGRAM, [text] * 100).weight for text in (PUBLIC, FOREIGN))
    assert unlike < 0.4
    assert like > 0.65


def test_the_weight_is_the_mean_responsibility():
    mixture = Mixture(Uniform(), NGRAM)
    mixture.learn("the zebra")  # the second word is in no vocabulary
    ngram = NGRAM.after(BOS, BOS)[FIRST_WORD]
    responsibility = ngram / (ngram + 1 / VOCABULARY.size)
    assert mixture.weight == pytest.approx((10 + responsibility) / 21)


def test_only_the_latest_words_are_looked_at_when_it_starts():
    recent = [PUBLIC] * -(-FIRST_WORDS // 3)
    assert Mixture(Uniform(), NGRAM, [FOREIGN, *recent]).weight == Mixture(Uniform(), NGRAM, recent).weight


def test_a_sent_message_reaches_it_through_the_history():
    mixture = Mixture(Uniform(), NGRAM)
    Blended(mixture).learn(PUBLIC)
    assert mixture.weight > 0.5


def test_a_model_that_fails_does_not_keep_a_message_from_being_sent():
    class Broken(Uniform):
        def scores(self, finished):
            raise UnavailableError("gone")

    mixture = Mixture(Broken(), NGRAM, [PUBLIC])
    assert mixture.weight == 0.5
    assert (mixture.version, mixture.vocabulary) == (3, VOCABULARY)
