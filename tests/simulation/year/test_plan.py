"""The plan of a year has what was promised, at whatever seed and length."""

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.simulation.year.plan import AWAY_S, COORDINATOR_OFF_S, DAY_S, YearEvent, plan_year

LENGTHS = pytest.mark.parametrize(("days", "months", "weeks"), [(10, 1, 1), (90, 3, 12), (365, 11, 49)])


@LENGTHS
def test_every_device_loses_power_each_month(days, months, weeks):
    cuts = Counter(each.device for each in plan_year(1, 40, days) if each.event is YearEvent.POWER_CUT)
    assert set(cuts) == set(range(40))
    assert min(cuts.values()) >= months


@LENGTHS
def test_a_tenth_of_the_devices_has_each_of_the_long_faults(days, months, weeks):
    struck = defaultdict(list)
    for each in plan_year(1, 40, days):
        struck[each.event].append(each.device)
    for event in (YearEvent.DAMAGED_PAGE, YearEvent.DRAWER, YearEvent.WRONG_CLOCK):
        assert len(set(struck[event])) == len(struck[event]) == 4


@LENGTHS
def test_monthly_and_weekly_events_come_as_often(days, months, weeks):
    found = Counter(each.event for each in plan_year(1, 40, days))
    monthly = (YearEvent.BROKER_AWAY, YearEvent.DATABASE_AWAY, YearEvent.AGENT_RELEASE)
    assert all(found[event] >= months for event in monthly)
    assert found[YearEvent.REVOCATION] >= weeks
    assert found[YearEvent.AUTHORITY_RENEWAL] == 1


def test_a_drawer_of_a_year_outlasts_a_certificate():
    drawers = [each for each in plan_year(1, 40, 365) if each.event is YearEvent.DRAWER]
    assert {each.lasts_s for each in drawers} == {120 * DAY_S}


@LENGTHS
def test_the_coordinators_clock_is_wrong_in_each_way_and_never_twice_at_once(days, months, weeks):
    wrong = [each for each in plan_year(1, 40, days) if each.event is YearEvent.COORDINATOR_CLOCK]
    assert {each.clock_off_s for each in wrong} == set(COORDINATOR_OFF_S)
    assert len(wrong) >= months
    assert all(one.at_s + one.lasts_s <= other.at_s for one, other in pairwise(wrong))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(50, 120), st.integers(2, 400))
def test_every_event_is_over_before_the_end(seed, devices, days):
    plan = plan_year(seed, devices, days)
    assert plan == plan_year(seed, devices, days)
    assert all(each.at_s >= 0 and each.at_s <= 0.95 * days * DAY_S for each in plan)
    assert [each.at_s for each in plan] == sorted(each.at_s for each in plan)
    away = [each.lasts_s for each in plan if each.event is YearEvent.BROKER_AWAY]
    assert all(AWAY_S[0] <= lasts_s <= AWAY_S[1] for lasts_s in away)
