from __future__ import annotations

import tomllib
from importlib import resources

import numpy as np
import pytest

from nightjar.edge_agent.keyboard.common_words import common_words
from nightjar.models.vocabulary import FIRST_WORD, words

LISTS = tomllib.loads(resources.files("nightjar.edge_agent.keyboard").joinpath("common_words.toml").read_text("utf-8"))


@pytest.mark.parametrize("language", LISTS)
def test_every_list_consists_of_words_as_the_models_cut_them(language):
    listed = LISTS[language].split()
    assert len(listed) >= 3
    assert all(words(word) == [word] for word in listed)


def test_commoner_words_score_higher_and_specials_never():
    predictor = common_words("en")
    scores = predictor.scores(("anything",))
    assert not np.isfinite(scores[:FIRST_WORD]).any()
    assert (np.diff(scores[FIRST_WORD:]) < 0).all()
