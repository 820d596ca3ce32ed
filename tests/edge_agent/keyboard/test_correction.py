from __future__ import annotations

import pytest

from nightjar.edge_agent.keyboard.correction import (
    ENDING,
    FAR,
    FIRST_LETTER,
    MISSED,
    NEAR,
    SPELT_ALIKE,
    SWAPPED,
    neighbours,
    slip_cost,
    unlisted_cost,
)


@pytest.mark.parametrize(
    ("typed", "meant", "cost"),
    [
        ("dont", "dont", SPELT_ALIKE),
        ("thw", "the", NEAR),
        ("thp", "the", FAR),
        ("teh", "the", SWAPPED),
        ("te", "the", MISSED),
        ("thee", "the", NEAR),  # twice
        ("thre", "the", NEAR),  # two keys at once
        ("thpe", "the", FAR),
        ("rhe", "the", NEAR + FIRST_LETTER),
        ("he", "the", MISSED + FIRST_LETTER),
        ("cats", "cat", FAR + ENDING),  # a plural
        ("cat", "cats", MISSED + ENDING),
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
