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


def test_those_who_wrote_most_train_and_everybody_else_is_public_or_held_out():
    uneven = Corpus("made up", {f"u{n}": tuple(f"u{n} says {k}" for k in range(n + 10)) for n in range(20)})
    split = SplitSettings(most_active=3, held_out_people=0.2)
    people = divide(uneven, split, ALL, 1, cohort=3)
    assert [messages[0] for messages in people.train] == ["u19 says 0", "u18 says 0", "u17 says 0"]
    assert (len(people.outside), len(people.public_people)) == (3, 14)
    assert not {"u19", "u18", "u17"} & set(people.public_people)
    again = divide(uneven, split, ALL, 2, cohort=3)
    assert (again.public_people, again.outside) == (people.public_people, people.outside), "one start serves all seeds"
    with pytest.raises(CorpusError, match="which leaves 3: 1 are missing"):
        divide(uneven, split, ALL, 1, cohort=4)


def test_only_the_newest_messages_of_a_person_may_be_used():
    people = divide(CORPUS, SplitSettings(messages=10), ALL, 1, cohort=5)
    for messages in people.train:
        assert [message.split()[-1] for message in messages] == [str(k) for k in range(10, 17)]
