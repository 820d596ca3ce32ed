"""Typing into a field whose candidates a fake engine shows; IBus itself is not needed."""

import msgspec

from nightjar.benchmarks.first_day import Person, typed
from nightjar.benchmarks.ibus_desk import TypedField


class FakeField:
    """A field with an engine that knows two words, and inserts a space with each one that is chosen."""

    def __init__(self):
        self.text, self.keys, self.hidden = "", [], None

    def ask(self, line, timeout_s=None):
        asked = msgspec.json.decode(line)
        if asked["do"] == "begin":
            self.text = ""
        else:
            self.keys.append(asked["key"])
            self.press(asked["key"])
        return msgspec.json.encode({"candidates": self.candidates(), "text": self.text, "ms": 1.0})

    def press(self, key):
        if key.isdigit() and self.candidates():
            word = self.candidates()[int(key) - 1]
            self.text = self.text[: len(self.text) - len(self.text.rpartition(" ")[2])] + word + " "
        elif key == "Escape":
            self.hidden = self.text
        elif key != "Return":
            self.text += " " if key == "space" else key

    def candidates(self):
        partial = self.text.rpartition(" ")[2]
        shown = partial and self.text != self.hidden
        return [word for word in ("hello", "help") if shown and word.startswith(partial)]


def test_a_word_among_the_candidates_is_chosen_with_one_key_and_the_text_is_what_was_meant():
    child = FakeField()
    field = TypedField(child)
    counts = typed(field.suggest, Person("ada", ["help me", "say hello", "a"]), field.send)
    assert child.keys == ["h", "2", "m", "e", "Return", *"say", "space", "h", "1", "Return", "a", "Return"]
    assert (counts.letters, counts.keystrokes) == (8 + 10 + 2, 2 + 3 + 4 + 2 + 2)
    assert (field.messages, field.differing) == (3, 0)
    assert len(field.times_ms) == len(child.keys)


def test_a_figure_of_the_text_is_typed_though_figures_choose_candidates():
    child = FakeField()
    field = TypedField(child)
    typed(field.suggest, Person("ada", ["h2o", "7"]), field.send)
    assert child.keys == ["h", "Escape", "2", "o", "Return", "7", "Return"]
    assert (field.further, field.differing) == (1, 0)


def test_a_sign_after_a_chosen_word_that_owes_its_space_gets_the_space_typed():
    child = FakeField()
    press = child.press

    def without_space(key):
        press(key)
        child.text = child.text.rstrip() if key.isdigit() else child.text

    child.press = without_space
    field = TypedField(child)
    typed(field.suggest, Person("ada", ["hello 'em"]), field.send)
    assert child.keys == ["h", "1", "space", "'", "e", "m", "Return"]
    assert (field.further, field.differing) == (1, 0)


def test_a_message_that_became_another_is_counted():
    child = FakeField()
    field = TypedField(child)
    child.press = lambda key: None
    typed(field.suggest, Person("ada", ["me"]), field.send)
    assert field.differing == 1
