"""Whole simulations: what must hold whatever goes wrong, wherever it does."""

import msgspec
import pytest

from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.tasks.settings import Mode
from nightjar.simulation.rounds.faults import PHASES, STATES, SimulatedFault, dangers
from nightjar.simulation.rounds.hunt import complaints
from nightjar.simulation.rounds.result import MEASURED, result_of
from nightjar.simulation.rounds.world import Settings, SimulationResult, World, simulate

pytestmark = pytest.mark.slow


def run(faults: str, *, severity: float, devices: int = 100, rounds: int = 3, seed: int = 1) -> SimulationResult:
    return simulate(Settings(devices, rounds, seed, dangers(faults), severity))


def same_every_time(outcome: SimulationResult) -> bytes:
    result = result_of(outcome)
    return msgspec.json.encode({key: value for key, value in result.items() if key not in MEASURED})


def test_without_faults_every_round_commits(quiet):
    assert complaints(quiet) == []
    result = result_of(quiet)
    assert result["rounds_committed"] == 3
    assert result["reports_duplicate"] == result["reports_invalid"] == 0
    assert result["messages_lost"] == result["faults_thrown"] == {}


def test_the_same_seed_gives_the_same_result_and_another_seed_another(quiet):
    assert same_every_time(simulate(quiet.settings)) == same_every_time(quiet)
    assert same_every_time(run("none", severity=1, seed=2)) != same_every_time(quiet)


def test_the_same_seed_gives_the_same_faults():
    assert same_every_time(run("all", severity=5)) == same_every_time(run("all", severity=5))


@pytest.mark.parametrize("fault", SimulatedFault, ids=lambda fault: fault.value)
def test_each_fault_alone_costs_no_report(fault):
    outcome = run(fault.value, severity=30, rounds=4)
    assert complaints(outcome) == []
    assert sum(outcome.thrown.values()) > 0, "the fault never happened, so nothing was tested"
    assert result_of(outcome)["rounds_committed"] >= 3


@pytest.mark.parametrize("seed", range(4))
def test_all_faults_together_cost_no_report(seed):
    outcome = run("all", severity=5, rounds=5, seed=seed)
    assert complaints(outcome) == []
    assert result_of(outcome)["rounds_committed"] >= 4
    assert len(outcome.thrown) > 10


@pytest.mark.parametrize(("tasks", "seed"), [(1, 1), (1, 2), (3, 3)])
def test_buffered_rounds_with_all_faults_cost_no_report(tasks, seed):
    settings = Settings(300, 15, seed, dangers("all"), 4.0, tasks=tasks, mode=Mode.BUFFERED, concurrency=40)
    outcome = simulate(settings, settle=True)
    assert complaints(outcome) == []
    assert sum(count for versions, count in outcome.observer.stale.items() if versions) > 0, "nobody was late"


def test_buffered_rounds_are_the_same_with_the_same_seed():
    settings = Settings(100, 5, 1, dangers("all"), 5.0, mode=Mode.BUFFERED)
    assert same_every_time(simulate(settings)) == same_every_time(simulate(settings))


@pytest.mark.parametrize(("tasks", "seed"), [(2, 1), (4, 2), (4, 3)])
def test_several_tasks_and_variants_on_the_same_phones_cost_no_report(tasks, seed):
    outcome = simulate(Settings(300, 12, seed, dangers("all"), 4.0, tasks=tasks), settle=True)
    assert complaints(outcome) == []
    result = result_of(outcome)
    assert result["devices_in_two_rounds_at_once"] == 0
    assert len(result["rounds_committed_by_task"]) == tasks, "each of them gets on"
    assert sum(result["rounds_committed_by_task"].values()) == result["rounds_committed"]


def test_variants_have_phones_of_their_own_and_other_tasks_have_them_all(make_world):
    world = make_world(devices=300, rounds=24, tasks=4)
    world.run()
    phones = {}
    for state in world.observer.rounds:
        phones.setdefault(state.task, set()).update(state.seats)
    assert phones["variant-a"].isdisjoint(phones["variant-b"])
    assert all(phones[variant] & (phones["keyboard"] | phones["second"]) for variant in ("variant-a", "variant-b"))


def goes_on_as_if_nothing_had_happened(world: World) -> None:
    """Run with faults, then without: everything that waited is answered, and another round commits."""
    world.run()
    world.settle()
    committed = [state for state in world.observer.rounds if state.phase is Phase.COMMITTED]
    assert len(committed) > world.settings.rounds
    assert world.coordinator.up
    assert world.unanswered() == []
    assert (world.observer.lost, world.observer.counted_twice, world.observer.wrong_means) == ([], 0, [])


@pytest.mark.parametrize("state", STATES)
def test_killed_in_state(make_world, state):
    # A phone finishes early only if it is unplugged in the middle of a training.
    more = ",unplug" if state == "finishing" else ""
    world = make_world(faults=f"power-cut:{state}{more}", severity=100, rounds=12)
    goes_on_as_if_nothing_had_happened(world)
    assert world.dice.thrown[f"power-cut:{state}"] > 0


@pytest.mark.parametrize("phase", PHASES)
def test_coordinator_killed_in_phase(make_world, phase):
    world = make_world(faults=f"coordinator-restart:{phase}", severity=20, rounds=10)
    goes_on_as_if_nothing_had_happened(world)
    assert world.dice.thrown[f"coordinator-restart:{phase}"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fault", ["broker-restart", "broker-amnesia", "coordinator-disk-full"])
def test_trouble_in_phase(make_world, fault, phase):
    world = make_world(faults=f"{fault}:{phase}", severity=100, rounds=10)
    goes_on_as_if_nothing_had_happened(world)
    assert world.dice.thrown[f"{fault}:{phase}"] > 0


def test_a_round_with_too_few_phones_ends_by_its_deadline_and_says_why():
    outcome = run("none", severity=1, devices=2, rounds=3)
    for state in outcome.observer.rounds:
        assert state.phase is Phase.ABANDONED
        assert "of 2 phones eligible" in state.reason


@pytest.mark.long
def test_a_thousand_phones_and_every_fault_lose_at_most_one_round():
    outcome = run("all", severity=1, devices=1000, rounds=50)
    assert complaints(outcome) == []
    assert result_of(outcome)["rounds_committed"] >= 49
