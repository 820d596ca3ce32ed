from __future__ import annotations

import numpy as np

from nightjar.benchmarks.correction import PEERS, PEOPLE, CorrectionTally, RightWords, _try, _typed, slip, typed_words
from nightjar.benchmarks.dictionary import read_affixes, words_of
from nightjar.models.corpora import Corpus


def test_a_slip_is_one_of_damerau_on_neighbouring_keys():
    generator = np.random.default_rng(1)
    slips = {slip("tea", generator) for _ in range(400)}
    assert {"tea"[:n] + "tea"[n + 1 :] for n in range(3)} <= slips  # left out
    assert {"eta", "tae"} <= slips  # in the wrong order
    assert {"rea", "tes", "twa"} <= slips  # another key
    assert {"tera", "teas", "trea"} <= slips  # one more
    assert not {"pea", "tpea"} & slips  # from the other end of the keyboard


def test_words_are_right_that_a_dictionary_has_or_fifty_people_typed_as_no_slip():
    people = {f"p{n}": ["sudo teh the the the the the the the the the the the"] for n in range(PEOPLE)}
    people["ann"] = ["xfoo house"]
    right = RightWords(Corpus("people", people), {"the", "house"})
    assert all(word in right for word in ("sudo", "house", "the"))
    assert "teh" not in right, "one slip from a word that is ten times as common"
    assert "xfoo" not in right


def test_dictionary_has_every_form_of_a_stem():
    rules = read_affixes(
        ["PFX U Y 1", "PFX U 0 un .", "SFX D Y 2", "SFX D 0 d e", "SFX D y ied [^aeiou]y", "SFX S N 1", "SFX S 0 s e"]
    )
    assert set(words_of("make/UDS", rules)) == {"make", "maked", "unmaked", "makes", "unmake"}
    assert set(words_of("tidy/D", rules)) == {"tidy", "tidied"}
    assert list(words_of("plain", rules)) == ["plain"]


def test_a_message_is_typed_word_by_word_as_it_stands():
    assert list(typed_words("Hi Ann, I'm 5!")) == [
        ("", "Hi"),
        ("Hi ", "Ann"),
        ("Hi Ann, ", "I'm"),
        ("Hi Ann, I'm ", "5"),
    ]
    right = RightWords(Corpus("people", {}), {"hello"})
    typed = list(_typed("hello 5 qq", right, np.random.default_rng(1)))
    assert [word for _, word, _ in typed] == ["hello", "5", "qq"]
    assert [bool(typo) for _, _, typo in typed][1:] == [False, False]  # no word that is right


def test_changes_and_mends_are_counted():
    def keyboard(_before, typed):
        return {"hlelo": "hello", "kate": "game"}.get(typed.lower(), typed.lower()), ["there", "hello"]

    right, outcome = RightWords(Corpus("people", {}), {"hello", "kate"}), CorrectionTally()
    _try(keyboard, "", "hello", "hlelo", right, outcome)
    _try(keyboard, "hello ", "kate", "katw", right, outcome)
    _try(keyboard, "hello ", "Zorblax", "", right, outcome)  # a name
    _try(keyboard, "", "Zorblax", "", right, outcome)  # at the beginning nothing says so
    assert outcome.shares() == {
        "correct_changed_share": 1 / 3,
        "typos_mended_share": 0.5,
        "typos_among_three_share": 0.5,
    }
    assert outcome.changed == ["kate -> game"]


def test_the_peers_mend_a_plain_typo_and_leave_a_plain_word():
    for make in PEERS.values():
        keyboard = make()
        assert keyboard("", "house")[0] == "house"
        assert "receive" in (keyboard("", "recieve")[0], *keyboard("", "recieve")[1])
