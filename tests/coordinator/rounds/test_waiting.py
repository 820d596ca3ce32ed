from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rounds.waiting import MOST_CHARACTERS, doing, sentence


def test_the_most_frequent_comes_first_and_the_rest_is_summed_up():
    states = {("ineligible", f"reason {number}"): number for number in range(1, 8)}
    assert sentence(doing(states)) == "7 reason 7, 6 reason 6, 5 reason 5, 4 reason 4, 6 for other reasons"


def test_what_is_no_reason_is_said_in_our_words():
    states = {("training", ""): 2, ("reporting", ""): 1, ("offline", ""): 9, ("resting", ""): 1}
    assert sentence(doing(states)) == "9 offline, 3 still at work, 1 told to come back later"


@given(st.dictionaries(st.tuples(st.text(), st.text()), st.integers(1, 1000), max_size=20))
def test_whatever_devices_say_the_sentence_is_one_short_line_and_nobody_is_lost(states):
    counted = doing(states)
    said = sentence(counted)
    assert said.isprintable()
    assert len(said) < 5 * (MOST_CHARACTERS + 10)
    assert sum(counted.values()) == sum(many for (state, _), many in states.items() if state not in {"checked-in", ""})
