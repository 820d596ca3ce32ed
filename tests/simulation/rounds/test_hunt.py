"""A short hunt on every run of the tests; `python -m simulation rounds --hunt` is the long one."""

import pytest

import simulation.rounds.hunt as hunting
import wire.frame
from simulation.rounds.faults import dangers
from simulation.rounds.hunt import complaints, hunt
from simulation.rounds.world import Settings

HARSH = Settings(devices=120, rounds=8, seed=0, faults=dangers("all"), severity=4.0)


def test_there_is_nothing_to_complain_about_without_faults(quiet):
    assert complaints(quiet) == []


def test_what_must_not_be_is_complained_about(quiet, monkeypatch):
    observer = quiet.observer
    monkeypatch.setattr(observer, "lost", [(1, "phone-000001", 1)])
    monkeypatch.setattr(observer, "wrong_means", [2])
    monkeypatch.setattr(observer, "rounds", observer.rounds[:1])
    monkeypatch.setitem(quiet.errors.first, "illegal_event", "illegal_event error='no row'")
    monkeypatch.setitem(quiet.errors.first, "not_stored", "not_stored error='full'")
    found = "; ".join(complaints(quiet))
    for part in ("1 accepted reports are lost", "not the mean of the phones' reports: [2]", "1 of 3 rounds", "no row"):
        assert part in found
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


@pytest.mark.long
def test_many_seeds_with_every_fault_at_four_times_its_rate_have_no_defect():
    bag = hunt(HARSH, range(8))
    assert bag.wrong == {}
    assert len(bag.thrown) > 30


@pytest.mark.slow
def test_reports_in_chunks_survive_every_fault_as_well(monkeypatch):
    monkeypatch.setattr(wire.frame, "MAX_PUBLISH_BYTES", 300)
    monkeypatch.setattr(wire.frame, "CHUNK_PART_BYTES", 300 - wire.frame.OVERHEAD_BYTES - wire.frame._CHUNK.size)
    bag = hunt(HARSH, range(20, 24))
    assert bag.wrong == {}
    assert bag.verdicts["accepted"] > 100
