import io
import math
import re

import numpy as np
import pytest
from rich.console import Console

from nightjar.models.configurations import CONFIGURATIONS, configuration
from nightjar.models.corpora import Corpus
from nightjar.simulation.collect_updates import FEWEST_MESSAGES, MOST_MESSAGES, WARM_UP_STEPS, choose_clients, collect
from nightjar.wire.errors import CorpusError


def corpus(**counts):
    return Corpus("c", {user: tuple(f"{user} {number}" for number in range(count)) for user, count in counts.items()})


def test_clients_typed_enough_and_the_warm_up_never_sees_their_text():
    people, public = choose_clients(corpus(a=300, b=FEWEST_MESSAGES, c=FEWEST_MESSAGES - 1, d=25), 2, seed=1)
    assert len(people) == 2
    assert all(FEWEST_MESSAGES <= len(messages) <= MOST_MESSAGES for messages in people)
    authors = {messages[0].split()[0] for messages in people}
    assert "c" not in authors
    assert authors.isdisjoint(message.split()[0] for message in public)
    assert len(public) == 300 + 20 + 19 + 25 - sum({"a": 300, "b": 20, "d": 25}[author] for author in authors)


def test_a_client_trains_on_its_newest_messages():
    (messages,), _ = choose_clients(corpus(a=300, b=1), 1, seed=1)
    assert messages[-1] == "a 299"
    assert len(messages) == MOST_MESSAGES


def test_the_seed_decides_who_is_a_client():
    many = corpus(**{f"u{number}": 30 for number in range(30)})
    chosen = [choose_clients(many, 5, seed)[0] for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_messages_without_a_word_are_passed_over():
    people, public = choose_clients(Corpus("c", {"a": ("?!",) * 99, "b": ("hi", ":)") * 20, "d": ("yo", "...")}), 1, 1)
    assert people == [("hi",) * 20]
    assert public == ["yo"]


@pytest.mark.parametrize("counts", [{"a": 30}, {"a": 30, "b": 30}, {"a": 30, "b": 19, "c": 3}])
def test_too_few_people_are_refused_with_their_number(counts):
    with pytest.raises(CorpusError, match=r"2 clients need .* use fewer clients or more text"):
        choose_clients(corpus(**counts), 2, seed=1)


def test_every_model_has_a_warm_up():
    assert WARM_UP_STEPS.keys() == {shape.family for shape in CONFIGURATIONS.values()}


@pytest.mark.long
@pytest.mark.tflite
@pytest.mark.tensorflow
def test_clients_train_from_a_model_that_knows_more_than_nothing():
    said = io.StringIO()
    first, again = (collect("personas", 3, Console(file=said, width=200), "tiny", seed=5, steps=60) for _ in range(2))
    assert (first.corpus, first.model, first.seed) == ("personas (seed 5)", "tiny", 5)
    for delta, same in zip(first.deltas, again.deltas, strict=True):
        np.testing.assert_array_equal(delta, same)
        assert delta.shape == (first.layout.size,)
    assert len({delta.tobytes() for delta in first.deltas}) == 3
    assert "warm-up steps: 60 of 60" in said.getvalue()
    (loss, top3) = re.search(r"loss ([\d.]+), .* top-3 ([\d.]+) %", said.getvalue()).groups()
    assert float(loss) < math.log(configuration("tiny").max_vocabulary) - 1
    assert float(top3) > 5
