"""Which versions keep their files."""

from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.versions.retention import IN_HAND, KeptBecause, StoredVersion, kept_versions
from nightjar.coordinator.versions.retention_policy import RetentionPolicy
from nightjar.coordinator.versions.rollout import Stage

NOW_S = 1e9
STORED = st.lists(
    st.builds(
        StoredVersion,
        st.integers(0, 500),
        st.sampled_from(["keyboard", "slow"]),
        st.sampled_from(Stage),
        st.floats(0, 2e9),
        st.booleans(),
    ),
    unique_by=lambda each: each.version,
    max_size=60,
)


@given(STORED, st.integers(2, 30), st.sets(st.integers(0, 500)), st.sets(st.integers(0, 500)))
def test_what_is_needed_is_kept_and_the_rest_is_bounded(stored, versions, in_use, held):
    kept = kept_versions(stored, RetentionPolicy(versions=versions), NOW_S, in_use=in_use, held=held)
    assert kept.keys() <= {each.version for each in stored}
    for each in stored:
        if each.stage in IN_HAND or each.by_hand or each.version in in_use or each.version in held:
            assert each.version in kept
    rest = [number for number, why in kept.items() if why in {KeptBecause.WAS_CURRENT, KeptBecause.RECENT}]
    assert len(rest) <= 2 * (versions + 9)


@given(STORED, st.floats(0, 2e9))
def test_no_clock_makes_one_of_the_last_current_versions_an_old_one(stored, now_s):
    kept = kept_versions(stored, RetentionPolicy(versions=20), now_s)
    for task in {each.task for each in stored}:
        were = sorted(
            each.version for each in stored if each.task == task and each.stage in {Stage.CURRENT, Stage.SUPERSEDED}
        )
        assert set(were[-20:]) <= kept.keys()


def test_a_version_says_why_it_is_kept():
    stored = [StoredVersion(number, "keyboard", Stage.SUPERSEDED, 0.0, number == 1) for number in range(40)]
    kept = kept_versions(stored, RetentionPolicy(versions=2), NOW_S, best={2}, held={3}, in_use={4})
    told = {number: kept.get(number) for number in (0, 1, 2, 3, 4, 31, 39)}
    assert told == {
        0: None,
        1: KeptBecause.BY_HAND,
        2: KeptBecause.BEST,
        3: KeptBecause.HELD,
        4: KeptBecause.IN_USE,
        31: KeptBecause.RECENT,
        39: KeptBecause.WAS_CURRENT,
    }
