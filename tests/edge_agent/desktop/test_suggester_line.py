"""The engine's connection holds up no key, whatever the suggester does."""

import contextlib
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.desktop.answers import paused_in, words_in
from nightjar.edge_agent.desktop.suggester_line import ANSWER_S, MOST_BYTES, SuggesterLine


class Listener:
    """A suggester that answers when it is told to, in a folder whose path is longer than a socket's may be."""

    def __init__(self, folder):
        self.path = folder / ("x" * 120) / "socket"
        self.path.parent.mkdir()
        self.socket = socket.socket(socket.AF_UNIX)
        short = folder / "s"
        self.socket.bind(str(short))
        short.rename(self.path)
        self.socket.listen()
        self.socket.settimeout(10)
        self.now = 0.0
        self.answers, self.watched = [], []
        self.line = SuggesterLine(self.path, lambda: self.now, self.watched.append)

    def accept(self):
        self.connection, _ = self.socket.accept()
        self.connection.settimeout(10)
        self.requests = self.connection.makefile("rb")

    def ask(self, **request):
        self.line.ask(request, self.answers.append, overtaken="text" in request)

    def next(self):
        return json.loads(self.requests.readline())

    def answer(self, data):
        self.connection.sendall(data)
        self.line.read()


@pytest.fixture
def listener(tmp_path):
    made = Listener(tmp_path)
    made.ask(do="status")
    made.accept()
    assert made.next() == {"do": "status"}
    yield made
    made.line.close()
    for each in (made.requests, made.connection, made.socket):
        each.close()


def test_answers_come_in_the_order_of_the_requests_also_in_pieces(listener):
    listener.ask(do="pause")
    listener.answer(b'{"paused": fal')
    assert listener.answers == []
    listener.answer(b'se}\n{"paused": true}\n')
    assert listener.answers == [{"paused": False}, {"paused": True}]


def test_of_overtaken_requests_only_the_last_is_sent(listener):
    for text in ("h", "he", "hel"):
        listener.ask(do="suggest", text=text)
    assert listener.answers == [None, None]
    listener.answer(b"{}\n")
    assert listener.next()["text"] == "hel"


@pytest.mark.parametrize("data", [b"nonsense\n", b"[]\n", b'{"error": "no", "code": "busy"}\n', b"[" * 60_000 + b"\n"])
def test_what_is_no_answer_is_none(listener, data):
    listener.answer(data)
    while not listener.answers:
        listener.line.read()
    assert listener.answers == [None]


def test_a_suggester_that_goes_is_asked_again_when_there_is_something_to_ask(listener):
    listener.requests.close()
    listener.connection.close()
    listener.line.read()
    assert listener.answers == [None]
    assert listener.watched[-1] is None
    listener.ask(do="status")
    listener.accept()
    assert listener.next() == {"do": "status"}


def test_a_suggester_that_does_not_answer_is_left_after_a_while(listener):
    listener.now = ANSWER_S + 1
    listener.ask(do="status")
    assert listener.answers == [None]
    listener.connection.close()
    listener.accept()
    assert listener.next() == {"do": "status"}


def test_an_endless_answer_and_one_that_nobody_asked_for_close_the_connection(listener):
    listener.answer(b"{}\n{}\n")
    assert listener.watched[-1] is None
    listener.ask(do="status")
    listener.connection.close()
    listener.accept()
    listener.connection.setblocking(False)
    while listener.watched[-1] is not None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            listener.connection.send(b"x" * MOST_BYTES)
        listener.line.read()
    assert listener.answers == [{}, None]


def test_without_a_suggester_there_is_no_answer(tmp_path):
    answers = []
    SuggesterLine(tmp_path / "nothing" / "socket", lambda: 0.0, lambda _: None).ask({"do": "status"}, answers.append)
    assert answers == [None]


@pytest.mark.parametrize("prefix", ["see you hel", "hel\n", "\u2003", "x" * 65])
def test_a_suggested_word_takes_the_place_of_one_word_at_most(prefix):
    assert words_in(1, {"words": ["hello"], "prefix": prefix, "space_takes": False}).words == ()


@pytest.mark.parametrize("words", [["teh", "the"], [3, "the"], ["", "the"], []])
def test_only_another_word_in_the_first_place_is_a_correction(words):
    assert not words_in(1, {"words": words, "prefix": "teh", "space_takes": True}).takes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.sampled_from(["words", "prefix", "x"]), inner),
)


@given(st.none() | st.dictionaries(st.sampled_from(["words", "prefix", "space_takes", "paused"]), JSON))
def test_any_answer_gives_words_that_can_be_shown(answer):
    found = words_in(1, answer)
    assert len(found.words) <= 10
    assert all(word.isprintable() and 0 < len(word) <= 64 for word in found.words)
    assert paused_in(answer) in (None, True, False)
