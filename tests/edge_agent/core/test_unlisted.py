import pytest

from nightjar.edge_agent.core.unlisted import PRIOR_WORDS, UNLISTED_SHARE, UnlistedShare
from nightjar.models.vocabulary import Vocabulary

VOCABULARY = Vocabulary(("the", "cat"))


def test_it_begins_with_the_share_of_people_of_whom_nothing_is_known():
    assert UnlistedShare(VOCABULARY).share == pytest.approx(UNLISTED_SHARE)


def test_it_moves_with_what_is_typed_and_never_reaches_an_end():
    person = UnlistedShare(VOCABULARY, ["The zebra"])
    assert person.share == pytest.approx((UNLISTED_SHARE * PRIOR_WORDS + 1) / (PRIOR_WORDS + 2))
    plain, strange = UnlistedShare(VOCABULARY, ["the cat"] * 5_000), UnlistedShare(VOCABULARY, ["zebra"] * 9_000)
    assert 0 < plain.share < 0.01 < 0.95 < strange.share < 1
