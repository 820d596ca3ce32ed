from nightjar.coordinator.storage.fleet import GROUPS, OTHER, Census

STATES = {("checked-in", ""): 4, ("training", ""): 2, ("ineligible", "in use"): 3, ("", ""): 1, ("new-state", ""): 1}
CENSUS = Census(counted_s=0.0, known=11, states=STATES, holders={})


def test_every_device_is_in_one_group_also_one_that_says_something_new():
    counts = {"waiting": 4, "at work": 2, "resting": 0, "not eligible": 3, "offline": 0, OTHER: 2}
    assert counts == CENSUS.groups
    assert not set.intersection(*map(set, GROUPS.values()))


def test_eligible_are_those_that_wait_and_those_at_work():
    assert CENSUS.eligible == 6
