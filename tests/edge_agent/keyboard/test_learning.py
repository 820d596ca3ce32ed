from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.learning import LONGEST, own_words_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("met Zorblax", [("zorblax", "Zorblax")]),
        ("Zorblax met", [("zorblax", "zorblax")]),  # the capital may be the sentence's
        ("met. Zorblax! (Ada", [("zorblax", "zorblax"), ("ada", "ada")]),
        ("my pin is 4x7q 12345", []),
        ("met a x", []),
        ("'quoted' met", [("quoted", "quoted")]),
        ("met l\u2019H\u00e9lo\u00efse", [("l'h\u00e9lo\u00efse", "l'H\u00e9lo\u00efse")]),
        ("met " + "x" * (LONGEST + 1), []),
        ("met " + "x" * LONGEST, [("x" * LONGEST, "x" * LONGEST)]),
        ("", []),
    ],
)
def test_which_words_are_worth_counting(text, expected):
    assert own_words_in(text, {"met", "my", "pin", "is", "a"}.__contains__) == expected


@given(st.text(max_size=80))
def test_any_text_can_be_sent(text):
    for word, _ in own_words_in(text, lambda word: False):
        assert word == word.lower()
        assert not any(character.isdigit() for character in word)


def test_a_long_row_of_signs_costs_no_time():
    begun_s = time.process_time()
    assert own_words_in("met" + 1000 * "!" + 250 * " quo", lambda word: False)[1:3] == [("quo", "quo")] * 2
    assert time.process_time() - begun_s < 0.5
