from __future__ import annotations

import pytest

from nightjar.edge_agent.keyboard.spelling import Spelling

WORDS = "the\nthen\nthem\ntest\nrest\nbest\nthis\nhen\n"


@pytest.mark.parametrize("strange", ["hte", "tset", "qqqq", "привет"])
def test_what_no_word_looks_like_is_strange(strange):
    spelling = Spelling(WORDS.encode())
    assert spelling.strangeness(strange) > max(map(spelling.strangeness, ("the", "nest", "thest")))


@pytest.mark.parametrize("words", ["", "".join(f"{chr(0x4E00 + n)}\n" for n in range(200))])
def test_without_words_or_with_thousands_of_signs_nothing_is_strange(words):
    assert Spelling(words.encode()).strangeness("hte") == 0.0
