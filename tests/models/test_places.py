from nightjar.models.places import places
from nightjar.models.vocabulary import Vocabulary

VOCABULARY = Vocabulary(("on", "monday"))


def test_places_are_few_spread_evenly_and_before_a_known_word() -> None:
    messages = [["see", f"you{n}", "on", "monday"] for n in range(95)]
    found = places(messages, VOCABULARY, most=10)
    assert [place.beginning[1] for place in found] == [f"you{n}" for n in range(0, 95, 10)]
    assert {place.meant for place in found} == {"on"}


def test_short_long_and_unknown_are_left_out() -> None:
    unknown, short, long = ["see", "you", "soon", "monday"], ["on", "on", "on"], ["on"] * 17
    assert places([unknown, short, long], VOCABULARY) == []
