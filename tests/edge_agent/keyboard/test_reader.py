from __future__ import annotations

import numpy as np
import pytest

from nightjar.edge_agent.keyboard.reader import KEPT_STATES, Reader
from nightjar.models.vocabulary import BOS, OOV, words
from nightjar.wire.errors import LocalProtocolError


def read_as_typed(reader, model, text):
    """The number of model steps that each key press of a text costs."""
    costs = []
    for end in range(len(text) + 1):
        before = len(model.tokens)
        reader.scores(words(text[:end].rpartition(" ")[0]))
        costs.append(len(model.tokens) - before)
    return costs


def test_the_model_reads_the_whole_sentence_in_order(bench):
    Reader(bench.model).scores(["hello", "zorblax", "are"])
    hello, are = bench.model.vocabulary.encode(["hello", "are"])
    assert bench.model.tokens == [BOS, hello, OOV, are]


def test_a_key_press_costs_at_most_one_step(bench):
    costs = read_as_typed(Reader(bench.model), bench.model, "hello how are you today ")
    assert max(costs) == 1
    assert sum(costs) == 1 + 5  # one for the beginning and one for each finished word, none inside a word


def test_backspace_costs_nothing(bench):
    reader, text = Reader(bench.model), "hello how are you "
    read_as_typed(reader, bench.model, text)
    before = len(bench.model.tokens)
    for end in range(len(text), -1, -1):
        reader.scores(words(text[:end].rpartition(" ")[0]))
    assert len(bench.model.tokens) == before


def test_a_key_press_costs_at_most_one_step_also_beyond_the_kept_states(bench):
    assert max(read_as_typed(Reader(bench.model), bench.model, "hello " * (2 * KEPT_STATES))) == 1


def test_model_that_does_not_fit_its_vocabulary_is_refused(bench):
    class Broken(type(bench.model)):
        def step(self, token, state):
            return np.zeros(3, np.float32), state

    with pytest.raises(LocalProtocolError, match=r"one score for each of \d+ word ids"):
        Reader(Broken()).scores(())
