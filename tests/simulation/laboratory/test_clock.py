"""Whose reports make which version when, without any training."""

from itertools import islice

import numpy as np
import pytest

from nightjar.simulation.laboratory.clock import buffered_versions, first_to_report, seconds_of_work
from nightjar.simulation.laboratory.experiment import Experiment, TimeSettings

PEOPLE = 60
MIX = TimeSettings(training_s=30.0, transfer_s=5.0, spread=0.5, slow_share=0.1, slow_factor=10.0)


def planned(count=200, seed=1, **settings):
    given = {"mode": "buffered", "buffer": 4, "concurrency": 20, "max_staleness": 1000, "time": MIX} | settings
    seconds = seconds_of_work(given["time"], PEOPLE, seed)
    return list(islice(buffered_versions(Experiment(**given), seconds, seed), count)), seconds


def test_each_version_has_as_many_reports_as_the_buffer_each_of_another_person():
    versions, _ = planned()
    for version in versions:
        assert len({each.person for each in version.work}) == len(version.work) == 4


def test_a_person_begins_the_next_work_only_after_the_last_report():
    versions, _ = planned()
    last = {}
    for number, version in enumerate(versions, 1):
        for each in version.work:
            assert last.get(each.person, 0) <= each.base < number
            last[each.person] = number


def test_a_report_comes_when_its_devices_work_is_done():
    versions, seconds = planned()
    when = np.cumsum([0.0, *(version.hours for version in versions)]) * 3600
    for number, version in enumerate(versions, 1):
        for each in version.work:
            finished = when[number] - when[each.base]
            assert seconds[each.person] <= finished + 1e-6, "nobody reports before the work is done"
            assert finished - seconds[each.person] <= when[number] - when[number - 1] + (
                when[each.base + 1] - when[each.base]
            )


def test_all_places_are_always_taken():
    versions, seconds = planned(3000)
    assert sum(version.device_seconds for version in versions) == pytest.approx(
        20 * 3600 * sum(version.hours for version in versions)
    )
    done = sum(seconds[each.person] for version in versions for each in version.work)
    assert done == pytest.approx(sum(version.device_seconds for version in versions), rel=0.01)


def test_the_versions_that_devices_work_from_are_known_until_their_reports_come():
    versions, _ = planned()
    for number, version in enumerate(versions[:-1], 1):
        following = {each.base for each in versions[number].work}
        assert following <= {number, *version.in_use}
        assert number not in version.in_use


def test_reports_that_are_too_stale_are_wasted_and_their_versions_forgotten():
    versions, _ = planned(max_staleness=10)
    assert sum(version.wasted_seconds for version in versions) > 0
    for number, version in enumerate(versions, 1):
        assert all(number - 1 - each.base <= 10 for each in version.work)
        assert all(number - old <= 10 for old in version.in_use)


def test_with_devices_of_one_speed_and_one_buffer_for_all_at_work_nobody_is_more_than_a_version_late():
    versions, _ = planned(buffer=20, time=TimeSettings(training_s=30.0, transfer_s=0.0, spread=0.0))
    assert {each.base for each in versions[6].work} == {5, 6}, "all but the last began before the version was full"
    assert versions[6].hours == pytest.approx(30 / 3600)


def test_the_same_seed_plans_the_same_and_another_does_not():
    assert planned()[0] == planned()[0] != planned(seed=2)[0]


def test_a_round_without_enough_people_waits_for_all_of_them():
    round_ = first_to_report([3, 1], np.array([0.0, 10.0, 0.0, 30.0]), size=5, number=7)
    assert [(each.person, each.base) for each in round_.work] == [(1, 6), (3, 6)]
    assert (round_.hours, round_.device_seconds, round_.wasted_seconds) == (30 / 3600, 40.0, 0.0)


def test_a_round_begins_with_its_selection():
    seconds = np.array([10.0, 30.0])
    at_once = first_to_report([0, 1], seconds, size=2, number=1)
    chosen = first_to_report([0, 1], seconds, size=2, number=1, selection_s=3600.0)
    assert chosen.hours == at_once.hours + 1
    assert chosen.device_seconds == at_once.device_seconds
