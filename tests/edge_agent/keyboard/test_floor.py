import numpy as np
import pytest

from nightjar.edge_agent.keyboard.floor import floor, shares_in, speaks
from nightjar.models.lexicon import read_lexicon, write_lexicon
from nightjar.models.vocabulary import OOV, Vocabulary

VOCABULARY = Vocabulary(("you", "the", "kernel", "and"))
ENGLISH = read_lexicon(write_lexicon("en", {"the": 0.05, "and": 0.02, "you": 0.01, "kernel": 1e-6, "aardvark": 1e-7}))
GERMAN = read_lexicon(write_lexicon("de", {"die": 0.05, "und": 0.02, "kernel": 1e-6}))


def test_shares_are_those_of_the_lexicon_and_nothing_for_words_that_it_lacks():
    shares = shares_in(VOCABULARY, GERMAN)
    assert shares.shape == (VOCABULARY.size,)
    assert np.flatnonzero(shares).tolist() == [VOCABULARY.id_of("kernel")]
    assert shares_in(VOCABULARY, ENGLISH)[VOCABULARY.id_of("the")] == pytest.approx(0.05, rel=0.05)


def test_a_model_speaks_the_language_whose_lexicon_has_its_words():
    assert speaks(shares_in(VOCABULARY, ENGLISH))
    assert not speaks(shares_in(VOCABULARY, GERMAN))


def test_the_floor_is_of_the_languages_that_the_model_speaks():
    found = floor(VOCABULARY, [GERMAN, ENGLISH])
    assert found.sum() == pytest.approx(1.0)
    assert not found[:OOV].any()
    assert found[OOV] == pytest.approx(0.92, abs=0.01)  # most of the language is missing
    assert [VOCABULARY.word(number) for number in np.argsort(-found)[1:4]] == ["the", "and", "you"]
    assert floor(VOCABULARY, [GERMAN]) is None
