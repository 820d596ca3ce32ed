from __future__ import annotations

import pytest

from nightjar.edge_agent.keyboard.correction import (
    DOUBLED,
    ENDING,
    FAR,
    FIRST_LETTER,
    FIRST_SWAPPED,
    I_AND_E,
    LEFT_OUT,
    MISSED,
    NEAR,
    SWAPPED,
    VOWEL,
    neighbours,
    slip_cost,
    unlisted_cost,
)


@pytest.mark.parametrize(
    ("typed", "meant", "cost"),
    [
        ("dont", "dont", LEFT_OUT),
        ("thw", "the", NEAR),
        ("thp", "the", FAR),
        ("teh", "the", SWAPPED),
        ("te", "the", MISSED),
        ("thee", "the", NEAR),  # twice
        ("thre", "the", NEAR),  # two keys at once
        ("thpe", "the", FAR),
        ("rhe", "the", NEAR + FIRST_LETTER),
        ("he", "the", MISSED + FIRST_LETTER),
        ("hte", "the", SWAPPED + FIRST_SWAPPED),
        ("wierd", "weird", I_AND_E),
        ("seperate", "separate", VOWEL),
        ("hapy", "happy", DOUBLED),
        ("cats", "cat", FAR + ENDING),  # a plural
        ("cat", "cats", MISSED + ENDING),
        ("googled", "google", NEAR + ENDING),
    ],
)
def test_what_a_slip_costs(typed, meant, cost):
    assert slip_cost(typed, meant, "en") == pytest.approx(cost)


def test_keys_touch_their_neighbours_on_the_layout_of_the_language():
    assert ("z", "t") in neighbours("de")
    assert ("z", "t") not in neighbours("en")
    assert ("ф", "ы") in neighbours("ru")
    assert neighbours("it") == neighbours("en")
    assert all((b, a) in neighbours("fr") for a, b in neighbours("fr"))


def test_long_unlisted_words_are_likelier_slips_and_capitals_likelier_names():
    assert unlisted_cost("abcdefgh") > unlisted_cost("abc") > unlisted_cost("Abc")


def test_strange_spelling_speaks_for_a_slip_within_bounds():
    assert unlisted_cost("abc", 4.0) > unlisted_cost("abc") > unlisted_cost("abc", -1.0)
    assert unlisted_cost("abc", 1e9) < unlisted_cost("abc") + 10


def test_apostrophe_inside_a_word_was_meant_and_few_letters_without_a_vowel_may_be_shorthand():
    assert unlisted_cost("y'all") < unlisted_cost("yxall")
    assert unlisted_cost("thx", 9.0) < unlisted_cost("thx"[:2] + "e", 9.0)
