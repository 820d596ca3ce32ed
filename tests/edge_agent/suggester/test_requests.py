"""What desktop programs get from the suggester, and what hostile ones get."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.sending import PAUSED, Sending
from nightjar.edge_agent.suggester.requests import (
    MAX_TEXT_CHARACTERS,
    MOST_PROGRAMS,
    MOST_WORDS,
    OTHERS,
    Corrected,
    Learned,
    LearningPaused,
    RequestError,
    Requests,
    SuggesterStatus,
    Words,
)
from tests.edge_agent.keyboard.conftest import bench  # noqa: F401 - a fixture


@pytest.fixture
def requests(bench):  # noqa: F811 - the fixture
    return Requests(bench.suggester, bench.store, Sending(bench.suggester, bench.store), bench.note_typing)


@pytest.fixture
def ask(requests):
    return lambda **request: requests.answer(json.dumps(request).encode())


def test_words_follow_the_text_and_end_the_partial_word(ask, bench):  # noqa: F811 - the fixture
    assert ask(do="suggest", text="hello ", language="en") == Words(("there", "world", "how"), 7, "")
    assert ask(do="suggest", text="how ", partial="a", count=1, language="en").words == ("are",)
    assert ask(do="suggest", text="", language="en").words == ("hello", "how", "i'm")
    assert bench.keys_noted == 3


def test_completions_begin_with_the_partial_word(ask):
    found = ask(do="complete", partial="hel", language="en", count=10)
    assert found.words
    assert all(word.lower().startswith("hel") for word in found.words)
    assert "how" not in found.words


def test_a_slip_is_corrected_and_a_word_is_left_alone(ask):
    assert ask(do="correct", word="recieve", language="en") == Corrected("receive", changed=True)
    assert ask(do="correct", word="hello", language="en") == Corrected("hello", changed=False)


def test_a_sent_message_is_stored_and_counted_by_program(ask, bench):  # noqa: F811 - the fixture
    assert ask(do="learn", text="see you at zorblax", program="letters") == Learned(kept=True, reason="")
    assert bench.store.texts == ["see you at zorblax"]
    assert ask(do="learn", text="me@example.com", program="letters") == Learned(
        kept=False, reason="Not kept: an address is in it."
    )
    assert ask(do="status") == SuggesterStatus(7, 1, 0, paused=False, learned={"letters": 1})


def test_while_learning_is_paused_nothing_is_stored(ask, bench):  # noqa: F811 - the fixture
    assert ask(do="pause", paused=True) == LearningPaused(paused=True)
    assert ask(do="learn", text="see you", program="letters") == Learned(kept=False, reason=PAUSED)
    assert not bench.store.texts
    assert ask(do="pause", paused=False) == LearningPaused(paused=False)


def test_programs_with_ever_new_names_fill_no_memory(ask):
    for number in range(MOST_PROGRAMS + 5):
        ask(do="learn", text="see you", program=f"program {number}")
    learned = ask(do="status").learned
    assert len(learned) == MOST_PROGRAMS + 1
    assert learned[OTHERS] == 5


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"do": "erase"},
        {"do": "suggest"},
        {"do": "suggest", "text": 1},
        {"do": "suggest", "text": "x" * (MAX_TEXT_CHARACTERS + 1)},
        {"do": "suggest", "text": "", "count": 0},
        {"do": "suggest", "text": "", "count": MOST_WORDS + 1},
        {"do": "suggest", "text": "", "more": 1},
        {"do": "complete", "partial": ""},
        {"do": "correct", "word": ""},
        {"do": "learn", "text": "", "program": "letters"},
        {"do": "learn", "text": "see you"},
        {"do": "learn", "text": "see you", "program": ""},
        {"do": "pause", "paused": "yes"},
        [],
        "suggest",
        None,
    ],
)
def test_what_is_no_request_is_answered_in_words(requests, bench, request_):  # noqa: F811 - the fixture
    found = requests.answer(json.dumps(request_).encode())
    assert isinstance(found, RequestError)
    assert found.code == "request"
    assert found.error.startswith("expected a request of docs/suggester.md, got: ")
    assert not bench.store.texts


def test_an_error_repeats_nothing_that_was_typed(requests):
    for line in (b'{"do":"suggest","text":"zorblax"', b'{"do":"zorblax"}', b'{"do":"suggest","text":["zorblax"]}'):
        assert "zorblax" not in requests.answer(line).error


def test_an_unforeseen_error_is_told_without_its_text(requests, bench, monkeypatch):  # noqa: F811 - the fixture
    monkeypatch.setattr(bench.suggester, "suggest", lambda *_: {}["zorblax"])
    assert requests.answer(b'{"do":"suggest","text":""}') == RequestError("unforeseen KeyError", "internal")


def test_a_full_disk_is_said(ask, bench):  # noqa: F811 - the fixture
    bench.store.full = True
    found = ask(do="learn", text="see you", program="letters")
    assert (found.code, "disk is full" in found.error) == ("unavailable", True)


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(line):
    answer = Requests(None, None, None).answer(line)
    assert isinstance(answer, RequestError)
