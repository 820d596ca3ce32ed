from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.pretraining.sharing import people_by_word, shared_lengths
from nightjar.models.vocabulary import BOS, EOS

typed = st.lists(st.tuples(st.lists(st.integers(4, 6), max_size=5), st.integers(0, 3)), max_size=12)


@given(typed, st.integers(1, 4), st.integers(1, 4))
def test_each_length_is_that_of_the_longest_sequence_of_enough_people(
    messages: list[tuple[list[int], int]], least: int, longest: int
) -> None:
    texts, people = [message for message, _ in messages], [person for _, person in messages]
    who: dict[tuple[int, ...], set[int]] = {}
    for message, person in messages:
        for end, start in pairs(message):
            who.setdefault(sequence(message, start, end), set()).add(person)
    for message, lengths in zip(texts, shared_lengths(texts, people, least, longest), strict=True):
        assert lengths == [
            max(
                (end + 1 - start for start in range(max(0, end + 1 - longest), end + 1)
                 if len(who[sequence(message, start, end)]) >= least),
                default=0,
            )
            for end in range(1, len(message) + 2)
        ]  # fmt: skip


def sequence(message: list[int], start: int, end: int) -> tuple[int, ...]:
    return tuple([BOS, *message, EOS][start : end + 1])


def pairs(message: list[int]) -> list[tuple[int, int]]:
    return [(end, start) for end in range(len(message) + 2) for start in range(end + 1)]


def test_one_person_counts_once_however_often_a_word_is_typed() -> None:
    assert people_by_word([["pin", "pin"], ["pin"], ["hello"]], [0, 0, 1]) == {"pin": 1, "hello": 1}
    assert shared_lengths([[5], [5], [5]], [0, 0, 0], least=2, longest=3) == [[0, 0]] * 3


def test_no_text_has_no_lengths() -> None:
    assert shared_lengths([], [], least=2, longest=3) == []
