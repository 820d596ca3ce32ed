import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.vocabulary import BOS, EOS, FIRST_WORD, MAX_WORD_CHARACTERS, OOV, PAD, SPECIALS, Vocabulary, words
from nightjar.wire.errors import CorpusError, LocalProtocolError, RemoteProtocolError

WORDS = st.lists(st.text("abcz019'", min_size=1, max_size=8), min_size=1, max_size=30, unique=True)


def test_words_are_lower_case_runs_of_letters_digits_and_apostrophes() -> None:
    assert words("It's 5 o'clock, café—NO!\n") == ["it's", "5", "o'clock", "café", "no"]
    assert words(" ,.!?_ 👍 ") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ёлка И Йод", ["ёлка", "и", "йод"]),
        ("ΚΑΛΗΜΕΡΑ κόσμε", ["καλημερα", "κόσμε"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("e\u0301te\u0301", ["été"]),  # marks of their own are composed: one spelling, one id
        ("don\u2019t say \u2018no\u2019", ["don't", "say", "no"]),
        ("1\ufe0f\u20e3 one", ["1", "one"]),  # a mark with no letter before it is no word
    ],
)
def test_words_of_any_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text())
def test_a_word_is_one_word_again(text: str) -> None:
    assert all(words(word) == [word] for word in words(text))


def test_specials_have_the_first_ids() -> None:
    assert (PAD, BOS, EOS, OOV, FIRST_WORD) == (0, 1, 2, 3, 4)
    v = Vocabulary(("a",))
    assert [v.word(i) for i in range(v.size)] == [*SPECIALS, "a"]
    with pytest.raises(LocalProtocolError, match="0 to 4"):
        v.word(5)


def test_ids_are_positions_and_unknown_words_are_oov() -> None:
    v = Vocabulary(("the", "cat"))
    assert v.encode(words("The cat sat")) == [4, 5, OOV]
    assert v.id_of("cat") == 5
    assert v.id_of("<pad>") == OOV


def test_build_takes_the_commonest_and_breaks_ties_alphabetically() -> None:
    texts = ["z z z b b a a c"]
    assert Vocabulary.build(texts, size=7).words == ("z", "a", "b")
    assert Vocabulary.build(reversed(["c", "b", "b a"]), size=100).words == ("b", "a", "c")


def test_build_leaves_out_overlong_words_and_refuses_text_without_words() -> None:
    assert Vocabulary.build(["x" * (MAX_WORD_CHARACTERS + 1) + " ok"], size=10).words == ("ok",)
    with pytest.raises(CorpusError, match="got none"):
        Vocabulary.build(["...", ""], size=10)


@given(WORDS)
def test_bytes_round_trip(some: list[str]) -> None:
    v = Vocabulary(tuple(some))
    assert Vocabulary.from_bytes(v.to_bytes()) == v


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"the\ncat",
        b"the\n\ncat\n",
        b"the\nthe\n",
        b"The\n",
        b"the cat\n",
        b"the\r\ncat\r\n",
        b"<pad>\n",
        b"\xff\xfe\n",
        "cafe\u0301\n".encode(),
        "CAFÉ\n".encode(),
        "é\n".encode("utf-16"),
        b"x" * (MAX_WORD_CHARACTERS + 1) + b"\n",
        b"a\x00b\n",
    ],
)
def test_hostile_bytes_are_a_remote_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Vocabulary.from_bytes(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_vocabulary_or_a_remote_protocol_error(data: bytes) -> None:
    try:
        v = Vocabulary.from_bytes(data)
    except RemoteProtocolError:
        return
    assert v.to_bytes() == data


def test_a_vocabulary_that_would_exhaust_memory_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="at most"):
        Vocabulary.from_bytes(bytes(70_000_000))
