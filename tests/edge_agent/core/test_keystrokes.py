from nightjar.edge_agent.core.keystrokes import Replayed, newest, replay
from nightjar.models.vocabulary import Vocabulary

VOCABULARY = Vocabulary(("the", "cat", "sat"))


def nothing(_text):
    return ()


def test_without_suggestions_every_letter_and_blank_is_typed():
    typed = replay(nothing, "The cat!", VOCABULARY)
    assert typed == Replayed(words=2, letters=8, keystrokes=8)
    assert (typed.saved, typed.saved_percent) == (0, 0.0)


def test_a_word_that_is_offered_costs_the_letters_so_far_and_a_tap():
    def suggest(text):
        return {"": ["The", "a", "b"], "the c": ["car", "cat"]}.get(text, ["x"])

    typed = replay(suggest, "the cat zebra", VOCABULARY)
    assert typed == Replayed(words=2, top1=1, top3=1, letters=4 + 4 + 6, keystrokes=1 + 2 + 6)
    assert replay(suggest, "the cat zebra").words == 3
    assert typed.saved == 5


def test_an_empty_message_has_no_letters_and_saves_nothing():
    assert replay(nothing, " ?! ") == Replayed()
    assert Replayed().saved_percent == 0


def test_the_newest_messages_are_replayed_until_there_are_enough_words():
    messages = ["one two three", "four", "five six"]
    assert [newest(messages, most) for most in (0, 2, 3, 5, 6, 99)] == [
        [],
        messages[2:],
        messages[1:],
        messages[1:],
        messages,
        messages,
    ]
