"""Nothing waits for ever: every state that is not an end has something that ends it, and the page says what."""

import math
from itertools import pairwise

import pytest

from nightjar.coordinator.rounds.events import ClockTicked, DeviceCheckedIn, ReportReceived
from nightjar.coordinator.rounds.round import TERMINAL, Phase, open_round
from nightjar.coordinator.rounds.rules import rules_for
from nightjar.coordinator.rounds.synchronous import step
from nightjar.edge_agent.core import lifecycle, outbox
from nightjar.edge_agent.core.eligibility import EligibilityRun
from nightjar.edge_agent.core.events import ConditionsJudged, Moment
from nightjar.edge_agent.core.outbox import Parcel, Pending, Sent, TimePassed
from nightjar.wire.identifiers import DeviceId
from scripts.pages.round import MACHINES
from tests.edge_agent.core.test_lifecycle import STATES

RULES = rules_for(goal=2, minimum=1, over_selection=1.0, selection_deadline_s=60, report_deadline_s=600)
A, B = DeviceId("a"), DeviceId("b")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_the_page_says_what_ends_each_state_that_is_not_an_end(machine):
    left = {state for (state, _), row in machine.table.items() if row.leads_to - {state}}
    assert set(machine.ends) == left


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in TERMINAL])
@pytest.mark.parametrize("clock_set_back_s", [0.0, 1e8])
def test_time_alone_brings_a_round_from_each_phase_to_its_end(phase, clock_set_back_s):
    now_s = 2e9
    state = open_round(1, 0, RULES, 7, now_s)
    if phase is not Phase.SELECTION:
        for device in (A, B):
            state, _ = step(state, DeviceCheckedIn(device, now_s + 1))
        assert state.phase is Phase.REPORTING
    if phase is Phase.COMMITTING:
        for device in (A, B):
            state, _ = step(state, ReportReceived(device, 1, now_s + 2))
    assert state.phase is phase
    now_s -= clock_set_back_s
    longest_s = RULES.selection_deadline_s + RULES.report_deadline_s + RULES.commit_deadline_s
    state, _ = step(state, ClockTicked(now_s))  # from which on no deadline is further away than its phase is long
    while state.phase not in TERMINAL:
        now_s += 1.0
        longest_s -= 1.0
        state, _ = step(state, ClockTicked(now_s))
        assert longest_s > 0
    assert state.reason


ENDS_BY_CONDITIONS = {lifecycle.Ineligible, lifecycle.Settling}
ENDS_BY_THE_OUTBOX = {lifecycle.Reporting}


@pytest.mark.parametrize("state", STATES, ids=lifecycle.name)
def test_every_state_of_the_agent_is_ended_by_time_by_conditions_or_by_the_outbox(state):
    due_s = lifecycle.due_at_s(state)
    if type(state) in ENDS_BY_THE_OUTBOX:
        assert due_s is None
        return
    if type(state) in ENDS_BY_CONDITIONS:
        assert due_s is None
        due_s = 0.0
    assert math.isfinite(due_s)
    after, effects = lifecycle.step(state, ConditionsJudged(Moment(due_s, 0.5), EligibilityRun.FIT, "", None))
    assert after != state, "a poll after that moment moves it on"
    assert effects, "and something is said to the coordinator"


def test_a_report_in_the_outbox_is_due_again_and_again_for_ever():
    state, now_s, waits = Pending(Parcel(1, 1, 1)), 0.0, []
    assert outbox.due_at_s(state) <= now_s
    for _ in range(100):
        state, effects = outbox.step(state, TimePassed(Moment(now_s, 0.999)))
        assert effects
        assert isinstance(state, Sent)
        waits.append(outbox.due_at_s(state) - now_s)
        now_s = outbox.due_at_s(state)
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(waits)), "with back-off"
    assert max(waits) <= outbox.SEND_AGAIN.most_s
