"""Cohorts on the same weights are the same devices, or differ by many."""

from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rounds.cohorts import read_in_place
from nightjar.wire.cohorts import too_close

NAMES = st.frozensets(st.sampled_from("abcdefgh"), min_size=1)


@given(st.lists(NAMES, max_size=6), st.integers(1, 5), st.integers(1, 4))
def test_whatever_is_read_differs_from_all_before_by_nothing_or_by_the_smallest_cohort(cohorts, least, minimum):
    counted = []
    for cohort in cohorts:
        chosen = cohort if too_close(cohort, counted, least) is None else read_in_place(cohort, counted, minimum)
        if chosen is not None:
            counted.append(chosen)
        assert all(len(one ^ other) == 0 or len(one ^ other) >= least for one in counted for other in counted)


def test_the_largest_former_cohort_within_this_one_is_taken_instead():
    former = [frozenset("ab"), frozenset("abc"), frozenset("xyz")]
    assert read_in_place(frozenset("abcd"), former, 2) == frozenset("abc")
    assert read_in_place(frozenset("abcd"), former, 4) is None
