from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.refused import Offers

WORDS = st.lists(st.sampled_from(["a", "ab", "Abc", "abcd"]), max_size=3)


def test_word_that_was_offered_for_the_former_word_was_not_passed_over_for_this_one():
    offers = Offers()
    offers.note((), "h", ["hello"])
    assert offers.passed_over(("hello",), "ho") == frozenset()


def test_deleting_a_letter_takes_back_what_was_passed_over_since():
    offers = Offers()
    for prefix, offered in (("", ["the"]), ("t", ["to"]), ("th", ["that"]), ("t", ["to"])):
        offers.note((), prefix, offered)
    assert offers.passed_over((), "ta") == {"the", "to"}


def test_word_beyond_the_three_places_was_not_seen_and_what_is_typed_takes_none():
    offers = Offers()
    offers.note((), "h", ["h", "he", "hi", "how", "hello"])
    assert offers.passed_over((), "he") == {"he", "hi", "how"}


@given(st.lists(st.tuples(st.sampled_from(["", "a", "ab", "abc", "b"]), WORDS), max_size=8))
def test_the_same_text_again_passes_over_the_same_words(noted):
    offers = Offers()
    for prefix, offered in noted:
        before = offers.passed_over((), prefix)
        offers.note((), prefix, offered)
        assert offers.passed_over((), prefix) == before
