import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.typed import Typed, in_case_of, read_typed


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("", Typed((), "")),
        ("3.14 is", Typed(("3", "14"), "is")),
        ("at 5 o'cl", Typed(("at", "5"), "o'cl")),
        ("well, I DON'T kn", Typed(("well", "i", "don't"), "kn")),
        ("naïve ca", Typed(("naïve",), "ca")),
        ("Ёлка и Й", Typed(("ёлка", "и"), "Й")),
        ("¿qué tal", Typed(("qué",), "tal")),
        ("cafe\u0301", Typed((), "cafe\u0301")),
        ("😀 he", Typed((), "he")),
        ("one. Two\nthr", Typed((), "thr")),
        *((f"one {a}two.{b} Thr", Typed((), "Thr")) for a, b in ("()", "“”", "„“", "»«", "''", '""')),
        ("one.)two thr", Typed(("one", "two"), "thr")),
    ],
)
def test_text_is_cut_where_the_vocabulary_cuts_it(text, typed):
    assert read_typed(text) == typed


@given(st.text(max_size=60))
def test_any_text_can_be_typed(text):
    typed = read_typed(text)
    assert text.endswith(typed.prefix)
    assert all(word == word.lower() for word in typed.finished)


def test_a_single_capital_is_a_beginning_not_a_shout():
    assert in_case_of("hello", "H") == "Hello"
