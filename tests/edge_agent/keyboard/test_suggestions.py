from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.keyboard.suggestions import KEPT_STATES, Suggester, Suggestions, Typed, best, in_case_of, read_typed
from models.vocabulary import BOS, OOV, Vocabulary
from wire.errors import LocalProtocolError


def press_keys(suggester, model, text):
    """The number of model steps that each key press of a text costs."""
    costs = []
    for end in range(len(text) + 1):
        before = len(model.tokens)
        suggester.suggest(text[:end])
        costs.append(len(model.tokens) - before)
    return costs


def test_empty_field_already_offers_words(bench):
    assert bench.suggester.suggest("") == Suggestions(("hello", "how", "i'm"), completing=False, version=7)


def test_next_words_follow_the_last_finished_word(bench):
    assert bench.suggester.suggest("hello ").words == ("there", "world", "how")
    assert bench.suggester.suggest("hello how ").words == ("are", "is", "about")


def test_the_model_reads_the_whole_sentence_in_order(bench):
    bench.suggester.suggest("Hello, how are ")
    ids = bench.model.vocabulary.encode(["hello", "how", "are"])
    assert bench.model.tokens == [BOS, *ids]


def test_prefix_is_completed_by_the_likeliest_words_that_begin_with_it(bench):
    found = bench.suggester.suggest("hello th")
    assert found.completing
    assert found.words[:2] == ("there", "they")  # "there" follows "hello"; "they" merely fits


def test_a_word_with_no_space_after_it_is_still_being_typed(bench):
    assert bench.suggester.suggest("how").words[:2] == ("how", "howl")


def test_unknown_prefix_offers_what_was_typed_and_then_words_that_begin_alike(bench):
    assert bench.suggester.suggest("Helko").words == ("Helko", "Hello", "Help")


def test_prefix_like_nothing_offers_only_itself(bench):
    assert bench.suggester.suggest("xyzzy").words == ("xyzzy",)


def test_one_fitting_word_comes_before_the_prefix_itself(bench):
    assert bench.suggester.suggest("hello the").words == ("there", "they", "the")


def test_unknown_word_is_read_as_out_of_vocabulary(bench):
    assert bench.suggester.suggest("zorblax ").words == ("said", "is", "are")
    assert bench.model.tokens == [BOS, OOV]


@pytest.mark.parametrize("text", ["hello how. ", "hello how! ", "hello how?", "hello. how?! ", "hello how...\n"])
def test_sentence_end_starts_afresh(bench, text):
    assert bench.suggester.suggest(text) == bench.suggester.suggest("")
    assert bench.model.tokens == [BOS]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("", Typed((), "")),
        ("3.14 is", Typed(("3", "14"), "is")),
        ("at 5 o'cl", Typed(("at", "5"), "o'cl")),
        ("well, I DON'T kn", Typed(("well", "i", "don't"), "kn")),
        ("naïve ca", Typed(("na", "ve"), "ca")),
        ("😀 he", Typed((), "he")),
        ("one. Two\nthr", Typed(("two",), "thr")),
    ],
)
def test_text_is_cut_where_the_vocabulary_cuts_it(text, typed):
    assert read_typed(text) == typed


@given(st.text(max_size=60))
def test_any_text_can_be_typed(text):
    typed = read_typed(text)
    assert text.endswith(typed.prefix)
    assert all(word == word.lower() for word in typed.finished)


@pytest.mark.parametrize(
    ("text", "words"), [("hel", "hello"), ("Hel", "Hello"), ("HEL", "HELLO"), ("O'c", "O'clock"), ("1", "12")]
)
def test_completion_keeps_the_case_that_was_typed(bench, text, words):
    assert bench.suggester.suggest(text).words[0] == words


def test_a_single_capital_is_a_beginning_not_a_shout():
    assert in_case_of("hello", "H") == "Hello"


def test_a_key_press_costs_at_most_one_step(bench):
    text = "hello how are you today. how is helmet zorblax now"
    costs = press_keys(bench.suggester, bench.model, text)
    assert max(costs) == 1
    # One for each beginning and each finished word, none inside a word; the second sentence's start is kept.
    assert sum(costs) == 1 + len(text.replace(".", "").split()) - 2


def test_backspace_costs_nothing(bench):
    text = "hello how are you "
    press_keys(bench.suggester, bench.model, text)
    before = len(bench.model.tokens)
    for end in range(len(text), -1, -1):
        bench.suggester.suggest(text[:end])
    assert len(bench.model.tokens) == before


def test_a_key_press_costs_at_most_one_step_also_beyond_the_kept_states(bench):
    assert max(press_keys(bench.suggester, bench.model, "hello " * (2 * KEPT_STATES))) == 1


def test_no_model_gives_no_words_and_says_why():
    found = Suggester().suggest("hello ")
    assert (found.words, found.version, found.completing) == ((), None, False)
    assert "No model yet" in found.reason


def test_new_model_is_used_from_the_next_suggestion_on(bench):
    bench.suggester.suggest("hello ")
    other = type(bench.model)(version=8, followers={"hello": ["day"]}, vocabulary=Vocabulary(("day", "hello")))
    bench.suggester.replace_model(other)
    assert bench.suggester.version == 8
    assert bench.suggester.suggest("hello ") == Suggestions(("day", "hello"), completing=False, version=8)


def test_first_model_may_come_late(bench):
    suggester = Suggester()
    assert suggester.version is None
    suggester.replace_model(bench.model)
    assert suggester.suggest("").words == ("hello", "how", "i'm")


def test_threads_never_mix_two_models(bench):
    """Words and version of an answer belong to one model while models are swapped under the readers."""
    models = [
        type(bench.model)(
            version=v, followers={"<s>": [f"w{v}"]}, vocabulary=Vocabulary(tuple(f"w{i}" for i in range(4)))
        )
        for v in range(4)
    ]
    suggester = Suggester(models[0])
    wrong: list[Suggestions] = []

    def read() -> None:
        for _ in range(200):
            found = suggester.suggest("")
            if found.words[0] != f"w{found.version}":
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(200):
        suggester.replace_model(models[turn % 4])
    for reader in readers:
        reader.join()
    assert wrong == []


def test_specials_are_never_suggested(bench):
    assert all(not word.startswith("<") for word in bench.suggester.suggest("", count=1000).words)


def test_scores_that_are_not_finite_are_never_chosen():
    scores = np.array([0, 0, 0, 0, np.nan, np.inf, 1, -np.inf, 2], np.float32)
    assert best(scores, np.arange(4, 9), 3).tolist() == [8, 6]


@given(
    st.lists(st.floats(-9, 9, width=32).map(round), min_size=1, max_size=40),
    st.integers(1, 10),
    st.randoms(use_true_random=False),
)
def test_best_is_the_head_of_a_whole_sort(values, count, random):
    scores = np.array(values, np.float32)
    candidates = sorted(random.sample(range(len(values)), random.randint(0, len(values))))
    expected = sorted(candidates, key=lambda number: (-values[number], number))[:count]
    assert best(scores, np.array(candidates, np.int64), count).tolist() == expected


def test_model_that_does_not_fit_its_vocabulary_is_refused(bench):
    class Broken(type(bench.model)):
        def step(self, token, state):
            return np.zeros(3, np.float32), state

    with pytest.raises(LocalProtocolError, match=r"one score for each of \d+ word ids"):
        Suggester(Broken()).suggest("")


def test_count_below_one_is_refused(bench):
    with pytest.raises(LocalProtocolError, match="at least 1"):
        bench.suggester.suggest("", count=0)
