"""Whatever a lying coordinator sends in whatever order, with up to two of four devices on its side."""

import pytest
from msgspec.structs import replace

from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from nightjar.wire.secure_sum.session import terms_of_assignment
from nightjar.wire.secure_sum.terms import Terms
from tests.explorer.search import explore
from tests.explorer.sums import LyingCoordinator, rules
from tests.wire.secure_sum.test_session import ASSIGNED, ORDER

LAYOUT = ParameterLayout((ParameterSpec("kernel", (8, 8)),))
MINIMUM_BY_LIARS = {0: (4, 3), 1: (3, 2), 2: (4, 3)}
"""Minimum and threshold of four devices that tolerate so many liars."""


def terms_by_orders(liars):
    """The terms of two orders that differ in how far an update is clipped."""
    minimum, threshold = MINIMUM_BY_LIARS[liars]
    found = {}
    for name, clip_norm in (("A", 1.0), ("B", 1e-9)):
        order = replace(ORDER, cohort=4, threshold=threshold, clip_norm=clip_norm, noise_variance=0)
        terms = terms_of_assignment(replace(ASSIGNED, minimum=minimum, secure_sum=order, privacy=None), LAYOUT, "demo")
        found[name] = replace(terms, values=1)
    return found


CASES = [(0, "AAAA"), (0, "AABB"), (1, "AAA"), (1, "AAB"), (1, "ABA"), (1, "BAA"), (2, "AA"), (2, "AB")]


@pytest.mark.parametrize(("liars", "orders"), CASES)
def test_a_lying_coordinator_learns_nothing_but_a_sum_of_enough_devices_with_the_same_orders(liars, orders):
    coordinator = LyingCoordinator(orders, terms_by_orders(liars))
    explored = explore(coordinator.start(), coordinator.moves, rules(coordinator))
    some_way_leads_to_a_sum = any(coordinator.open_sums(world) for world in explored.ends)
    assert (explored.rule, some_way_leads_to_a_sum or len(set(orders)) > 1) == ("", True), explored.way


def test_without_the_orders_in_the_session_s_name_the_explorer_finds_how_one_update_is_taken_out():
    terms = terms_by_orders(1)
    terms["B"] = replace(terms["B"], session=terms["A"].session)
    coordinator = LyingCoordinator("ABB", terms)
    explored = explore(coordinator.start(), coordinator.moves, rules(coordinator))
    assert explored.rule == "the devices of a sum were all given the same orders"
    assert any(name.startswith("confirmations") for name in explored.way)


def test_with_a_smaller_quorum_the_explorer_finds_two_lists_of_survivors(monkeypatch):
    monkeypatch.setattr(Terms, "quorum", lambda self, _cohort: self.threshold)
    coordinator = LyingCoordinator("AAA", terms_by_orders(1))
    explored = explore(coordinator.start(), coordinator.moves, rules(coordinator))
    assert explored.rule == "no two devices disclosed for different lists of survivors"
