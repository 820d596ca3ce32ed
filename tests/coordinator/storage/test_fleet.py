from coordinator.storage.fleet import GROUPS, OTHER, Census, grouped

STATES = {("checked-in", ""): 4, ("training", ""): 2, ("ineligible", "in use"): 3, ("", ""): 1, ("new-state", ""): 1}


def test_every_device_is_in_one_group_also_one_that_says_something_new():
    found = grouped(STATES)
    assert sum(found.values()) == sum(STATES.values())
    assert found[OTHER] == 2
    assert not set.intersection(*map(set, GROUPS.values()))


def test_eligible_are_those_that_wait_and_those_at_work():
    census = Census(counted_s=0.0, known=11, states=STATES, holders={})
    assert census.eligible == 6
