"""A short hunt on every run of the tests; `python -m nightjar.simulation rounds --hunt` is the long one."""

import pytest

import nightjar.simulation.rounds.hunt as hunting
from nightjar.coordinator.tasks.settings import Mode
from nightjar.coordinator.versions.rollout import Stage
from nightjar.simulation.rounds.faults import dangers
from nightjar.simulation.rounds.hunt import complaints, hunt
from nightjar.simulation.rounds.model import is_bad
from nightjar.simulation.rounds.world import Settings
from nightjar.wire import frame

HARSH = Settings(devices=120, rounds=8, seed=0, faults=dangers("all"), severity=4.0)


def test_there_is_nothing_to_complain_about_without_faults(quiet):
    assert complaints(quiet) == []


def test_what_must_not_be_is_complained_about(quiet, monkeypatch):
    observer = quiet.observer
    monkeypatch.setattr(observer, "lost", [(1, "phone-000001", 1)])
    monkeypatch.setattr(observer, "wrong_means", [2])
    monkeypatch.setattr(observer, "rejected_used", {7})
    monkeypatch.setattr(observer, "rounds", observer.rounds[:1])
    monkeypatch.setitem(quiet.errors.first, "illegal_event", "illegal_event error='no row'")
    monkeypatch.setitem(quiet.errors.first, "not_stored", "not_stored error='full'")
    found = "; ".join(complaints(quiet))
    for part in ("1 accepted reports are lost", "not the mean of the phones' reports: [2]", "1 of 3 rounds", "no row"):
        assert part in found
    assert "left something behind: [7]" in found
    assert "not_stored" not in found


def test_an_exception_in_one_simulation_does_not_end_the_hunt(monkeypatch):
    simulate = hunting.simulate

    def broken(settings, *, settle):
        if settings.seed == 1:
            raise KeyError("a defect")
        return simulate(settings, settle=settle)

    monkeypatch.setattr(hunting, "simulate", broken)
    bag = hunt(Settings(devices=60, rounds=1, seed=0), range(1, 3))
    assert list(bag.wrong) == [1]
    assert "a defect" in bag.wrong[1][0]
    assert bag.phases.total() > 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_versions_that_are_worse_in_their_trial_leave_nothing_behind(mode):
    settings = Settings(devices=120, rounds=40, seed=1, faults=dangers("all"), severity=3.0, mode=mode, canaries=0.3)
    bag = hunt(settings, [1, 2])
    assert bag.wrong == {}
    assert bag.phases.total() > 80


def test_a_bad_version_is_rolled_back_in_its_trial_and_a_good_one_is_released(make_world):
    world = make_world(devices=200, rounds=20, seed=3, canaries=0.4)
    world.run()
    view = world.coordinator.repository.view
    versions = [view.version(number) for number in range(1, view.last_version_number() + 1)]
    worse = [each for each in versions if "with the current version 50.0 %" in each.rollout.reason]
    assert worse
    assert all(is_bad(each.version, 3) and each.rollout.stage is Stage.ROLLED_BACK for each in worse)
    assert any("tried it and are none the worse" in each.rollout.reason for each in versions)
    assert (world.observer.lost, world.observer.wrong_means, world.observer.rejected_used) == ([], [], set())


@pytest.mark.long
def test_many_seeds_with_every_fault_at_four_times_its_rate_have_no_defect():
    bag = hunt(HARSH, range(8))
    assert bag.wrong == {}
    assert len(bag.thrown) > 30


@pytest.mark.slow
def test_reports_in_chunks_survive_every_fault_as_well(monkeypatch):
    monkeypatch.setattr(frame, "MAX_PUBLISH_BYTES", 300)
    monkeypatch.setattr(frame, "CHUNK_PART_BYTES", 300 - frame.OVERHEAD_BYTES - frame._CHUNK.size)
    bag = hunt(HARSH, range(20, 24))
    assert bag.wrong == {}
    assert bag.verdicts["accepted"] > 100
