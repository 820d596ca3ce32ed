import itertools
import random

import pytest

from nightjar.wire.secure_sum.graph import in_order, neighbours


def connected(cohort, degree, removed):
    left = set(range(cohort)) - set(removed)
    seen, waiting = set(), [min(left)]
    while waiting:
        member = waiting.pop()
        if member not in seen:
            seen.add(member)
            waiting += [other for other in neighbours(member, cohort, degree) if other in left]
    return seen == left


@pytest.mark.parametrize(("cohort", "degree"), [(3, 2), (10, 9), (10, 6), (11, 10), (100, 50)])
def test_neighbours_are_mutual_ascending_and_as_many_as_the_degree(cohort, degree):
    near = {member: neighbours(member, cohort, degree) for member in range(cohort)}
    for member, others in near.items():
        assert len(others) == degree
        assert list(others) == sorted(set(others) - {member})
        assert all(member in near[other] for other in others)


@pytest.mark.parametrize(("cohort", "degree"), [(7, 4), (8, 4), (9, 6), (6, 5)])
def test_no_removal_below_the_degree_disconnects_the_others(cohort, degree):
    for removed in itertools.combinations(range(cohort), degree - 1):
        assert connected(cohort, degree, removed)


def test_no_removal_that_was_tried_disconnects_a_large_cohort():
    rng = random.Random(1)
    runs = [[(begin + step) % 100 for step in range(49)] for begin in range(0, 100, 10)]
    for removed in (*runs, *(rng.sample(range(100), 49) for _ in range(30))):
        assert connected(100, 50, removed)
    assert not connected(100, 50, [*range(1, 26), *range(27, 52)]), "the degree itself can"


def test_the_order_is_the_sessions_and_has_each_key_once():
    keys = [bytes([number]) * 33 for number in range(9)]
    one, other = in_order(b"1" * 32, keys), in_order(b"2" * 32, reversed(keys))
    assert sorted(one) == sorted(other) == keys
    assert one != other
    assert in_order(b"1" * 32, one + one) == one
