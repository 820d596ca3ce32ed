import numpy as np
import pytest

from nightjar.edge_agent.core.results import Evaluation
from nightjar.models.batches import pack
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.vocabulary import Vocabulary
from nightjar.simulation.warm_start import evaluate, full_vocabulary, seeded, warm_up, warm_up_batches
from nightjar.wire.errors import CorpusError, UnavailableError
from tests.edge_agent.fakes import FakeProgram

SHAPE = ModelConfiguration("small", max_vocabulary=20, embedding=3, hidden=5, batch_rows=2, sequence_length=6)
VOCABULARY = Vocabulary(("a", "b", "c"))
TEXTS = ["a b", "c", "b b b", "a c a", "c c"]


def test_a_purpose_has_its_own_draws_and_always_the_same():
    draws = {names: seeded(1, *names).random() for names in [("a",), ("b",), ("a", 1), ("a", 2), ("a", 1, 2)]}
    assert len(set(draws.values())) == len(draws)
    assert seeded(1, "a", 1).random() == draws["a", 1]
    assert seeded(2, "a", 1).random() != draws["a", 1]


def test_a_vocabulary_is_filled_up_with_words_that_the_text_lacks():
    vocabulary, invented = full_vocabulary(["word0 word0 a"], 9)
    assert vocabulary.words == ("word0", "a", "word1", "word2", "word3")
    assert invented == 3


def test_a_vocabulary_of_a_long_text_is_only_its_commonest_words():
    vocabulary, invented = full_vocabulary(["a a a b b c"], 6)
    assert vocabulary.words == ("a", "b")
    assert invented == 0


def test_text_without_words_makes_no_vocabulary():
    with pytest.raises(CorpusError, match="words"):
        full_vocabulary(["?!"], 9)


def test_a_short_text_is_used_again():
    batches = warm_up_batches(TEXTS, VOCABULARY, SHAPE, steps=7, seed=1)
    assert len(batches) == 7
    once = pack([[4, 5], [6]], 2, 6).x.shape[1:]
    assert all(x.shape == y.shape == once for x, y in batches)
    distinct = {x.tobytes() for x, _ in batches}
    assert 1 < len(distinct) < 7


def test_only_as_much_text_is_taken_as_the_steps_need():
    (batch,) = warm_up_batches(["a b c"] * 1000, VOCABULARY, SHAPE, steps=1, seed=1)
    assert batch[0].shape == (2, 6)


def test_no_steps_need_no_text():
    assert warm_up_batches(TEXTS, VOCABULARY, SHAPE, steps=0, seed=1) == []


def test_the_seed_decides_the_order():
    many = [f"{a} {b}" for a in "abc" for b in "abc"]
    order = [np.concatenate([x for x, _ in warm_up_batches(many, VOCABULARY, SHAPE, 3, seed)]) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(order[0], order[1])
    assert (order[0] != order[2]).any()


def test_a_warm_up_that_diverges_is_said():
    device = FakeProgram(losses=(2.0, float("nan")))
    with pytest.raises(UnavailableError, match="diverged"):
        warm_up(device, warm_up_batches(TEXTS, VOCABULARY, SHAPE, 3, 1))


class Scored(FakeProgram):
    """Loss and hits by the number of targets."""

    def evaluate(self, x, y):
        targets = float(np.count_nonzero(y))
        return Evaluation(loss_sum=2 * targets, targets=targets, counted=targets - 1, top1=1.0, top3=2.0)


def test_scores_of_batches_add_up():
    parts = [pack([[4, 5]], 2, 6), pack([[4, 5, 6, 4]], 2, 6)]
    assert evaluate(Scored(), parts) == (2.0, 2 / 6, 4 / 6)


def test_nothing_to_foresee_scores_nothing():
    assert evaluate(Scored(), []) == (0.0, 0.0, 0.0)
