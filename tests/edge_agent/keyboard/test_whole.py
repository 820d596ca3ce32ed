import numpy as np

from nightjar.edge_agent.keyboard.whole import WholeKeyboard
from nightjar.models.vocabulary import Vocabulary


class Indifferent:
    """Knows four words and prefers none of them."""

    vocabulary = Vocabulary(("one", "two", "three", "four"))
    version = 1

    def scores(self, finished):
        return np.zeros(self.vocabulary.size, np.float32)


def test_a_whole_keyboard_suggests_what_its_user_wrote_and_the_words_of_the_user():
    fresh = WholeKeyboard(Indifferent())
    assert "four" not in fresh.suggest("")
    used = WholeKeyboard(Indifferent(), ["four zorblax four zorblax"] * 20)
    assert used.suggest("")[0] == "four"
    assert "zorblax" in used.suggest("four z")


def test_it_learns_from_what_is_sent_as_from_what_was_typed_before():
    sent, typed = WholeKeyboard(Indifferent()), WholeKeyboard(Indifferent(), ["four zorblax"] * 20)
    for _ in range(20):
        sent.send("four zorblax")
    for text in ("", "four ", "four z", "zorblax f"):
        assert sent.suggest(text) == typed.suggest(text)


def test_another_predictor_goes_on_with_what_the_user_wrote():
    keyboard, typed = WholeKeyboard(Indifferent(), ["four zorblax"] * 20), ["four zorblax"] * 20
    keyboard.replace_predictor(Indifferent(), typed)
    for text in ("", "four ", "four z", "zorblax f"):
        assert keyboard.suggest(text) == WholeKeyboard(Indifferent(), typed).suggest(text)
