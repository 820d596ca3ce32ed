import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.corpora import Corpus
from nightjar.simulation.laboratory.experiment import EvaluationSettings, SplitSettings
from nightjar.simulation.laboratory.people import divide
from nightjar.wire.errors import CorpusError

CORPUS = Corpus("made up", {f"u{n}": tuple(f"u{n} says {k}" for k in range(20)) for n in range(20)})
SPLIT = SplitSettings(public_people=0.2)
ALL = EvaluationSettings(messages=10_000)


@given(st.integers(0, 1000))
def test_no_message_is_in_two_parts(seed):
    validation = divide(CORPUS, SPLIT, ALL, seed, cohort=5)
    test = divide(CORPUS, SPLIT, EvaluationSettings(part="test", messages=10_000), seed, cohort=5)
    assert validation.train == test.train
    parts = [
        validation.public,
        *validation.train,
        validation.measured,
        test.measured,
        validation.held_out,
    ]
    together = [message for part in parts for message in part]
    assert len(together) == len(set(together)) == 400
    assert [len(part) for part in (validation.public, validation.measured, test.measured, validation.held_out)] == [
        80,
        28,
        56,
        40,
    ]


def test_the_oldest_messages_are_trained_on():
    people = divide(CORPUS, SPLIT, ALL, 1, cohort=5)
    for messages in people.train:
        assert [message.split()[-1] for message in messages] == [str(k) for k in range(14)]
    assert {message.split()[-1] for message in people.measured} == {"14", "15"}


def test_too_few_people_says_how_many_are_missing():
    with pytest.raises(CorpusError, match="20 of 20 people have so many, which leaves 14: 6 are missing"):
        divide(CORPUS, SPLIT, ALL, 1, cohort=20)
    with pytest.raises(CorpusError, match="at least 30 messages"):
        divide(CORPUS, SplitSettings(minimum_messages=30), ALL, 1, cohort=1)


def test_messages_to_measure_on_are_drawn():
    few = divide(CORPUS, SPLIT, EvaluationSettings(messages=7), 1, cohort=5)
    everything = divide(CORPUS, SPLIT, ALL, 1, cohort=5)
    assert len(few.measured) == len(few.held_out) == 7
    assert set(few.measured) <= set(everything.measured)
