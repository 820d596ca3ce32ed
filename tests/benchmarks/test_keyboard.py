import numpy as np
import pytest

from nightjar.benchmarks import presage
from nightjar.benchmarks.keyboard import blended, row, through
from nightjar.edge_agent.core.keystrokes import Replayed, replay
from nightjar.models.corpora import Participant
from nightjar.models.ngram import train_trigram
from nightjar.models.vocabulary import BOS, Vocabulary, words
from nightjar.simulation.demo.keyboards import NgramPredictor

VOCABULARY = Vocabulary(("the", "cat", "sat"))


def test_figures_are_percentages():
    found = row("global", Replayed(words=4, top1=1, top3=2, letters=20, keystrokes=15))
    assert found == {"predictor": "global", "top1": 25.0, "top3": 50.0, "keystrokes_saved_percent": 25.0}


def test_the_predictor_gives_the_logarithms_of_the_trigram():
    ids = [VOCABULARY.encode(words(line)) for line in ["the cat sat", "the cat sat", "cat sat the", "sat", "the sat"]]
    trigram = train_trigram(ids, VOCABULARY.size)
    predictor = NgramPredictor(VOCABULARY, trigram)
    for finished in ([], ["the"], ["the", "cat"], ["sat", "sat"]):
        before, last = [BOS, BOS, *VOCABULARY.encode(finished)][-2:]
        scores = trigram.after(before, last)
        assert scores.sum() == pytest.approx(1.0)
        assert np.exp(predictor.scores(finished)) == pytest.approx(scores, abs=1e-6)


def test_the_trigram_with_a_history_foresees_what_the_person_writes_against_the_public_text():
    public = [VOCABULARY.encode(words(line)) for line in ["the cat sat"] * 5]
    trigram = NgramPredictor(VOCABULARY, train_trigram(public, VOCABULARY.size))
    phone = Participant("ann", typed=["sat the cat the sat"] * 20, held_out=["sat the cat the sat"])
    alone = replay(through(trigram), phone.held_out[0], VOCABULARY)
    assert alone.words == blended(trigram, phone).words == 5
    assert alone.top1 < blended(trigram, phone).top1 == 5


@pytest.mark.skipif(not presage.installed(), reason="presage is not installed (apt-get install presage)")
def test_presage_learns_the_text_that_it_is_given(tmp_path):
    database = presage.train(["the cat sat on the mat", "hello my friend how are you"] * 5, tmp_path)
    assert presage.train(["the cat sat on the mat", "hello my friend how are you"] * 5, tmp_path) == database
    suggester = presage.Presage(database)
    assert suggester.suggest("the c") == ["cat"]
    assert suggester.suggest("hello my ")[0] == "friend"
