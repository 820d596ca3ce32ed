"""Whole simulations of rounds with secure sums: whatever goes wrong, each committed version is the exact mean."""

import pytest

from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.tasks.settings import Privacy
from nightjar.simulation.rounds.faults import SimulatedFault, dangers
from nightjar.simulation.rounds.hunt import complaints
from nightjar.simulation.rounds.world import Settings, simulate

pytestmark = pytest.mark.slow


def run(faults, severity, *, rounds=3, settle=False, privacy=Privacy.SECURE_SUM):
    settings = Settings(300, rounds, 1, dangers(faults), severity, privacy=privacy)
    return simulate(settings, settle=settle)


def committed(outcome):
    return sum(state.phase is Phase.COMMITTED for state in outcome.observer.rounds)


@pytest.mark.parametrize("privacy", [Privacy.SECURE_SUM, Privacy.SECURE_DP], ids=lambda privacy: privacy.value)
def test_without_faults_every_round_commits_an_exact_sum(privacy):
    outcome = run("none", 1, privacy=privacy)
    assert complaints(outcome) == []
    assert committed(outcome) == 3


@pytest.mark.parametrize(
    "fault",
    [
        SimulatedFault.POWER_CUT,
        SimulatedFault.COORDINATOR_RESTART,
        SimulatedFault.BROKER_AMNESIA,
        SimulatedFault.CORRUPT,
    ],
    ids=lambda fault: fault.value,
)
def test_each_fault_alone_makes_no_sum_wrong(fault):
    outcome = run(fault.value, 10)
    assert complaints(outcome) == []
    assert sum(outcome.thrown.values()) > 0, "the fault never happened, so nothing was tested"
    assert committed(outcome) >= 2


@pytest.mark.parametrize("privacy", [Privacy.SECURE_SUM, Privacy.SECURE_DP], ids=lambda privacy: privacy.value)
def test_all_faults_together_make_no_sum_wrong_and_leave_no_report_unanswered(privacy):
    outcome = run("all", 2, rounds=5, settle=True, privacy=privacy)
    assert complaints(outcome) == []
    assert committed(outcome) >= 3
