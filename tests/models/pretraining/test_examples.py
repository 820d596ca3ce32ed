from __future__ import annotations

from nightjar.models.batches import pack
from nightjar.models.pretraining.examples import shared_examples
from nightjar.models.vocabulary import BOS, EOS, FIRST_WORD, PAD

A, B, C, SECRET, D = range(FIRST_WORD, FIRST_WORD + 5)
COMMON = [[A, B, C]] * 6
PEOPLE = list(range(6))


def test_words_that_too_few_people_typed_after_the_same_two_are_no_targets() -> None:
    secret = [A, B, SECRET, A, B, C]
    found = shared_examples([*COMMON, *[secret] * 40], [*PEOPLE, *[0, 1, 2, 3] * 10], 20, least_people=5)
    # The last C is a target again: the two words before it are those of the six.
    assert found[6:] == [([BOS, *secret], [A, B, PAD, PAD, PAD, C, EOS])] * 40


def test_a_usual_pair_in_an_unusual_context_counts_once_for_each_person() -> None:
    usual, unusual = [D, A, B], [C, A, B]
    messages = [*[usual] * 4, *[unusual] * 6]
    found = shared_examples(messages, [0, 1, 2, 3, *[0, 1] * 3], 20, least_people=3, least_people_of_pair=4)
    assert [targets[2:] for inputs, targets in found if inputs[1] == C] == [[B, EOS]] * 2 + [[PAD, EOS]] * 4


def test_what_enough_people_typed_is_trained_as_it_is() -> None:
    assert shared_examples(COMMON, PEOPLE, 20, least_people=5) == [([BOS, A, B, C], [A, B, C, EOS])] * 6


def test_a_message_that_nobody_else_shares_leaves_no_example() -> None:
    assert shared_examples([[SECRET, D]] * 9, [0] * 9, 20, least_people=5) == []


def test_a_long_message_is_cut_as_devices_cut_it() -> None:
    message = [A, B, C, D, A, B, C]
    found = shared_examples([message, []], [0, 1], 3, least_people=1)
    packed = pack([message], 3, 3)
    for (inputs, targets), x, y in zip(found, packed.x[0].tolist(), packed.y[0].tolist(), strict=True):
        assert ([*inputs, *[PAD] * (3 - len(inputs))], [*targets, *[PAD] * (3 - len(targets))]) == (x, y)
