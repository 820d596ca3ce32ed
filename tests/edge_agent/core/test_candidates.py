import numpy as np
import pytest

from edge_agent.core.candidates import NO_PART, Urn
from models.vocabulary import FIRST_WORD, OOV, PAD

V, S = 1000, 200


@pytest.fixture
def y():
    y = np.random.default_rng(3).integers(OOV, 60, (4, 10)).astype(np.int32)
    y[:, 7:] = PAD
    return y


def test_every_target_is_there_with_certainty_and_padding_has_no_part(y):
    drawn = Urn(V, S, y.size).draw(y, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.ids[drawn.places], y)
    assert (drawn.ids.dtype, drawn.ids.shape, drawn.log_inclusion.shape) == (np.int32, (S,), (S,))
    assert (drawn.log_inclusion[drawn.places[y != PAD]] == 0).all()
    assert ((drawn.log_inclusion == NO_PART) == (drawn.ids == PAD)).all()
    assert drawn.ids[0] == PAD


def test_no_word_stands_twice_and_there_is_room_for_all(y):
    for seed in range(50):
        ids = Urn(V, S, y.size).draw(y, np.random.default_rng(seed)).ids
        real = ids[ids != PAD]
        assert len(set(real.tolist())) == len(real)
        assert len(real) > S // 2


def test_a_batch_without_padding_still_has_the_first_place_free():
    y = np.full((2, 3), FIRST_WORD, np.int32)
    drawn = Urn(V, S, 6).draw(y, np.random.default_rng(0))
    assert (drawn.places > 0).all()
    assert drawn.ids[0] == PAD


def test_words_are_drawn_as_often_as_is_said():
    urn, nothing = Urn(V, S, 20), np.full((4, 5), PAD, np.int32)
    counts, said = np.zeros(V), np.full(V, np.nan)
    for seed in range(2000):
        drawn = urn.draw(nothing, np.random.default_rng(seed))
        words = drawn.ids[1:][drawn.ids[1:] != PAD]
        counts[words] += 1
        said[words] = np.exp(drawn.log_inclusion[1 : len(words) + 1])
    seen = ~np.isnan(said)
    np.testing.assert_allclose(counts[seen] / 2000, said[seen], atol=0.05)
    assert counts[FIRST_WORD] > counts[V - 1]


def test_a_small_vocabulary_is_taken_whole():
    drawn = Urn(20, 64, 6).draw(np.full((2, 3), 7, np.int32), np.random.default_rng(0))
    assert set(drawn.ids.tolist()) >= set(range(FIRST_WORD, 20))
    assert (drawn.log_inclusion[drawn.ids != PAD] == 0).all()
