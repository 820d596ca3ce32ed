"""Which kind a round is, and what its kind says of it."""

import pytest
from msgspec.structs import replace

from nightjar.coordinator.rounds.kinds import BUFFERED, ON_TRIAL, SUMMED, SYNCHRONOUS, Averaging, EarlyReports, kind_of
from nightjar.coordinator.rounds.round import Phase, open_round
from nightjar.coordinator.rounds.rules import rules_for
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Work

RULES = rules_for(goal=2, minimum=1, over_selection=1, selection_deadline_s=60, report_deadline_s=600)
ROUNDS = {
    "synchronous": open_round(1, 0, RULES, 7, 0.0),
    "buffered": open_round(1, 0, replace(RULES, concurrency=2), 7, 0.0),
    "summed": open_round(1, 0, replace(RULES, summed=True), 7, 0.0),
    "on trial": open_round(1, 0, RULES, 7, 0.0, trial=True),
}


def test_a_round_keeps_its_kind_in_its_rules():
    assert [kind_of(state) for state in ROUNDS.values()] == [SYNCHRONOUS, BUFFERED, SUMMED, ON_TRIAL]


@pytest.mark.parametrize("name", ROUNDS)
def test_every_kind_can_check_and_average_the_report_of_a_device_that_trained(name):
    kind = kind_of(ROUNDS[name])
    assert kind.checks[Work.TRAIN]
    assert kind.averaging[Work.TRAIN] in Averaging


@pytest.mark.parametrize("name", ROUNDS)
def test_only_a_buffer_gives_seats_from_the_start_and_takes_early_reports(name):
    state = ROUNDS[name]
    kind = kind_of(state)
    opened = kind.opened(state, 0.0, "")
    buffered = name == "buffered"
    assert (opened.phase is Phase.REPORTING) is buffered
    assert kind.has_free_seat(opened) is buffered
    assert kind.has_room(opened, DeviceId("a"), 0.0) is buffered
    assert kind.is_buffer is buffered is (kind.early_reports is EarlyReports.TAKEN)


@pytest.mark.parametrize("name", ROUNDS)
def test_a_freed_seat_is_given_to_another_device_except_in_a_sum(name):
    state = ROUNDS[name]
    reporting = replace(state, phase=Phase.REPORTING, deadline_s=600.0)
    assert kind_of(state).has_room(reporting, DeviceId("a"), 1.0) is (name != "summed")


def test_only_a_sum_has_a_session_and_only_a_trial_makes_no_version():
    assert [name for name, state in ROUNDS.items() if kind_of(state).is_summed] == ["summed"]
    figures = [name for name, each in ROUNDS.items() if kind_of(each).averaging[Work.TRAIN] is Averaging.FIGURES]
    assert figures == ["on trial"]
