from __future__ import annotations

import math

from nightjar.edge_agent.keyboard.phrases import Phrases


def test_word_that_followed_the_same_three_words_twice_is_foreseen():
    phrases = Phrases(["my safe word is zorblax", "His safe word is Zorblax!", "safe word is secret"])
    assert phrases.after(["safe", "word", "is"]) == {"zorblax": math.log(1.5 / 4)}
    assert phrases.after(["word", "is"]) == {}
    assert phrases.after(["another", "word", "is"]) == {}


def test_once_is_no_habit():
    assert Phrases(["my safe word is zorblax"]).after(["safe", "word", "is"]) == {}
