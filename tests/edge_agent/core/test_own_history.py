import numpy as np
import pytest

from nightjar.edge_agent.core.own_history import CACHE_WORDS, Blended, OwnHistory
from nightjar.models.vocabulary import FIRST_WORD, OOV, Vocabulary

VOCABULARY = Vocabulary(("the", "cat", "sat", "dog", "ran", "home"))


def flat():
    shares = np.zeros(VOCABULARY.size)
    shares[FIRST_WORD:] = 1 / len(VOCABULARY.words)
    return shares


class Model:
    vocabulary = VOCABULARY
    version = 3

    def scores(self, finished):
        said = np.log(np.maximum(flat(), 1e-30)).astype(np.float32)
        said[VOCABULARY.id_of("ran")] += 2.0
        return said


def word_of(scores):
    return VOCABULARY.word(int(np.argmax(scores)))


def test_with_nothing_written_it_is_the_model():
    blended = OwnHistory(VOCABULARY).blend(flat(), ["the"])
    np.testing.assert_array_equal(blended, flat())
    model = Model()
    assert word_of(Blended(model).scores(["the"])) == "ran"
    assert Blended(model).version == 3


def test_probabilities_sum_to_one_and_nothing_given_is_changed():
    history, given = OwnHistory(VOCABULARY), flat()
    for text in ("the cat sat", "the cat ran home", "unknown cat"):
        history.learn(text)
    for finished in ([], ["the"], ["the", "cat"], ["nobody", "cat"], ["home", "home"]):
        assert history.blend(given, finished).sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(given, flat())


def test_what_was_written_after_the_same_words_says_more_the_more_often_it_was():
    history = OwnHistory(VOCABULARY)
    cat = VOCABULARY.id_of("cat")
    shares = []
    for _ in range(4):
        shares.append(history.blend(flat(), ["the"])[cat])
        history.learn("the cat")
    assert shares == sorted(shares)
    assert history.blend(flat(), ["the"])[cat] > 2 * history.blend(flat(), ["home"])[cat]


def test_two_words_of_context_count_more_than_one():
    history = OwnHistory(VOCABULARY)
    for _ in range(3):
        history.learn("dog cat sat")
        history.learn("home cat ran")
    assert word_of(history.blend(flat(), ["dog", "cat"])) == "sat"
    assert word_of(history.blend(flat(), ["home", "cat"])) == "ran"


def test_words_outside_the_vocabulary_count_as_one_word():
    history = OwnHistory(VOCABULARY)
    history.learn("hi zorblax hi quokka")
    blended = history.blend(flat(), ["quokka"])
    assert blended[OOV] > 0.05
    np.testing.assert_allclose(blended[FIRST_WORD:], (1 - blended[OOV]) * flat()[FIRST_WORD:])
    assert not blended[:OOV].any()


def test_the_cache_forgets_what_was_long_ago():
    history = OwnHistory(VOCABULARY)
    history.learn("dog " * 5)
    for _ in range(CACHE_WORDS):
        history.learn("cat")
    assert history.blend(flat(), ["sat"])[VOCABULARY.id_of("dog")] < 1 / len(VOCABULARY.words)


def test_a_message_that_is_sent_is_known_at_once():
    predictor = Blended(Model(), ["the dog"])
    assert word_of(predictor.scores(["the"])) == "ran"
    for _ in range(30):
        predictor.learn("the dog")
    assert word_of(predictor.scores(["the"])) == "dog"
