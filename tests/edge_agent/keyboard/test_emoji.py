from __future__ import annotations

import pytest

from nightjar.edge_agent.keyboard.emoji import emoji_names
from nightjar.edge_agent.keyboard.typed import read_typed
from nightjar.models.vocabulary import words


def test_each_emoji_has_one_name():
    names = dict(emoji_names())
    assert len(names) == len(emoji_names())
    assert names["👍"] == "thumbs up sign"
    assert names["❤"] == "heavy black heart"
    assert all(name == name.lower() and len(sign) == 1 for sign, name in names.items())


@pytest.mark.parametrize("emoji", ["😀", "👍🏽", "❤️", "👨‍👩‍👧", "🇫🇷", "☕"])
def test_emoji_are_no_words_and_separate_words(emoji):
    assert words(f"so {emoji} good{emoji}day {emoji}{emoji}") == ["so", "good", "day"]
    assert read_typed(f"so {emoji} goo").finished == ("so",)
    assert read_typed(f"so {emoji}").prefix == ""


def test_no_emoji_is_a_word_by_itself():
    assert [sign for sign, _ in emoji_names() if words(sign) or words(f"{sign}\ufe0f")] == []
