"""Whenever a host freezes, loses the lead and goes on, and whichever receipts get lost."""

import msgspec
import pytest

from nightjar.coordinator.rounds.round import Phase, Round
from tests.explorer.hosts import HandOver, rules
from tests.explorer.search import explore


@pytest.mark.slow
def test_a_hand_over_at_any_moment_loses_no_accepted_report_and_counts_none_twice():
    world = HandOver(most_terms=2)
    explored = explore(world.start(), world.moves, rules())
    assert explored.rule == "", explored.way
    ended = [msgspec.msgpack.decode(end.state, type=Round).phase for end in explored.ends]
    assert Phase.COMMITTED in ended


@pytest.mark.slow
def test_without_the_check_of_the_term_the_explorer_finds_what_is_lost():
    world = HandOver(fenced=False, most_terms=2)
    explored = explore(world.start(), world.moves, rules())
    assert explored.rule != ""
    assert any("leads" in name for name in explored.way)
