import numpy as np
import pytest

from nightjar.edge_agent.core.mixture import FIRST_WORDS, PRIOR_WORDS, START, Mixture
from nightjar.edge_agent.core.own_history import Blended
from nightjar.models.compact_ngram import compile_ngram, read_ngram
from nightjar.models.vocabulary import BOS, FIRST_WORD, OOV, Vocabulary
from nightjar.wire.errors import UnavailableError

VOCABULARY = Vocabulary(("the", "cat", "sat"))
PUBLIC = "the cat sat"
NGRAM = read_ngram(compile_ngram([VOCABULARY.encode(PUBLIC.split())] * 9, VOCABULARY.size), VOCABULARY.size)
FOREIGN = "cat the"
FLOOR = np.zeros(VOCABULARY.size, np.float32)
FLOOR[OOV:] = 0.1, 0.6, 0.2, 0.1


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
def test_it_begins_with_the_weighted_mean_of_the_probabilities_of_words(finished, context):
    mixed = Mixture(Uniform(), NGRAM, FLOOR).scores(finished)
    ngram = NGRAM.after(*context)[OOV:]
    expected = START.model / 4 + START.ngram * ngram / ngram.sum() + START.floor * FLOOR[OOV:]
    np.testing.assert_allclose(np.exp(mixed[OOV:]), expected, rtol=1e-5)
    assert np.exp(mixed[:OOV]).max() < 1e-20
    assert mixed.dtype == np.float32


def test_what_is_missing_has_no_weight():
    assert Mixture(Uniform()).weights == (1.0, 0.0, 0.0)
    ngram = START.ngram / (START.ngram + START.model)
    assert Mixture(Uniform(), NGRAM).weights == pytest.approx((1 - ngram, ngram, 0.0))
    assert Mixture(Uniform(), NGRAM, FLOOR).weights == pytest.approx(START)


def test_the_weights_follow_the_users_text():
    like, unlike = (Mixture(Uniform(), NGRAM, texts=[text] * 100).weights.ngram for text in (PUBLIC, FOREIGN))
    assert unlike < 0.4
    assert like > 0.65


def test_common_words_gain_weight_with_a_person_whom_neither_model_foresees():
    class Wrong(Uniform):
        def scores(self, finished):
            return np.array([-9] * FIRST_WORD + [-9, -9, 0], np.float32)

    before, after = Mixture(Wrong(), None, FLOOR), Mixture(Wrong(), None, FLOOR, ["the the cat"] * 20)
    assert after.weights.floor > 0.5 > before.weights.floor
    assert np.argmax(after.scores([])) == FIRST_WORD


def test_a_weight_is_the_mean_responsibility():
    mixture = Mixture(Uniform(), NGRAM)
    begun = mixture.weights.ngram
    mixture.learn("the")
    shares = NGRAM.after(BOS, BOS)[OOV:]
    ngram, model = begun * shares[1] / shares.sum(), (1 - begun) / 4
    expected = (PRIOR_WORDS * begun + ngram / (ngram + model)) / (PRIOR_WORDS + 1)
    assert mixture.weights.ngram == pytest.approx(expected)


def test_only_the_latest_words_are_looked_at_when_it_starts():
    recent = [PUBLIC] * -(-FIRST_WORDS // 3)
    looked_at = Mixture(Uniform(), NGRAM, texts=recent).weights
    assert Mixture(Uniform(), NGRAM, texts=[FOREIGN, *recent]).weights == looked_at


def test_a_sent_message_reaches_it_through_the_history():
    mixture = Mixture(Uniform(), NGRAM)
    begun = mixture.weights.ngram
    Blended(mixture).learn(PUBLIC)
    assert mixture.weights.ngram > begun


def test_a_model_that_fails_does_not_keep_a_message_from_being_sent():
    class Broken(Uniform):
        def scores(self, finished):
            raise UnavailableError("gone")

    mixture = Mixture(Broken(), NGRAM, texts=[PUBLIC])
    assert mixture.weights == Mixture(Uniform(), NGRAM).weights
    assert (mixture.version, mixture.vocabulary) == (3, VOCABULARY)
