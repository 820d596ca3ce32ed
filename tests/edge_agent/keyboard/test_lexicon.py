from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.lexicon import Lexicon, PackedWords
from nightjar.models.lexicon import fold

WORDS = ["the", "then", "don't", "café", "cafeteria", "ёлка", "йод", "naïve", "o'clock", "한국"]


def found(numbers):
    return [WORDS[number] for number in numbers]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("the", ["the", "then"]),
        ("THE", ["the", "then"]),
        ("cafe", ["café", "cafeteria"]),
        ("dont", ["don't"]),
        ("don\u2019t", ["don't"]),
        ("oclo", ["o'clock"]),
        ("елк", ["ёлка"]),
        ("наи", []),
        ("한", ["한국"]),
        ("하", ["한국"]),  # a syllable that is not finished yet
        ("zzz", []),
    ],
)
def test_words_are_found_by_their_beginning(typed, words):
    assert found(Lexicon(WORDS).beginning_with(typed)) == words


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("hte", ["the"]),  # changed places
        ("tha", ["the"]),  # a wrong letter
        ("th", ["the"]),  # a missing one
        ("tthen", ["then"]),  # one too many
        ("thes", ["the", "then"]),
        ("caffe", ["café"]),  # accents are no slips
        ("йот", ["йод"]),
        ("qqqq", []),
    ],
)
def test_words_are_found_by_one_slip(typed, words):
    assert found(Lexicon(WORDS).at_most_one_slip_away(typed)) == words


def test_no_words_no_finds():
    assert Lexicon([]).beginning_with("a").tolist() == []
    assert Lexicon([]).at_most_one_slip_away("a").tolist() == []


def test_a_script_of_thousands_of_signs_has_no_slips_of_a_sign():
    many = [chr(0x4E00 + i) for i in range(200)]
    assert Lexicon(many).at_most_one_slip_away(many[0] + "x").tolist() == [0]  # one too many still counts


@given(st.lists(st.text("abé'", min_size=1, max_size=5), max_size=12, unique=True), st.text("abé'", max_size=4))
def test_beginning_with_is_what_a_slow_search_finds(words, typed):
    assert Lexicon(words).beginning_with(typed).tolist() == [
        number for number, word in enumerate(words) if fold(word).startswith(fold(typed))
    ]


def test_packed_words_in_order_are_found_as_others_are():
    ordered = sorted(WORDS, key=lambda word: (fold(word), word))
    packed = Lexicon(PackedWords("".join(f"{word}\n" for word in ordered).encode()), in_order=True)
    plain = Lexicon(ordered)
    assert [*packed.words] == ordered
    for typed in ("t", "caf", "hte", "йот", "zzz", ""):
        assert packed.beginning_with(typed).tolist() == plain.beginning_with(typed).tolist()
        assert packed.at_most_one_slip_away(typed).tolist() == plain.at_most_one_slip_away(typed).tolist()
    assert [ordered[n] for n in packed.numbers_of(["the", "café", "cafe", "gone"])] == ["café", "the"]


def test_words_are_found_that_are_spelt_alike():
    assert found(Lexicon(WORDS).spelt_alike("dont")) == ["don't"]
    assert found(Lexicon(WORDS).spelt_alike("naive")) == ["naïve"]
