"""When the agent looks for releases, what stops a look, and what is told about it."""

import json

import pytest

from nightjar.edge_agent.core.eligibility import Condition
from nightjar.edge_agent.inbox import ReleaseCheckDone
from nightjar.edge_agent.shell.releases import COSTLY_EVERY_S, FIRST_WITHIN_S, LOOK_EVERY_S, Looking, ReleaseProcess
from nightjar.edge_agent.upkeep.releases import FIRST, MOST_STOPS
from nightjar.wire.errors import UnavailableError
from tests.edge_agent.fakes import Phone


class PlayedReleases:
    """Due as the test says."""

    def __init__(self):
        self.is_due, self.looks, self.ends = True, [], []
        self.outcome = ReleaseCheckDone("release 0.2.0 was fetched and handed over")

    def due(self, now_s, *, free):
        return self.is_due

    def ended(self, now_s, *, whole):
        self.is_due = not whole
        self.ends.append(whole)

    def look(self, free, should_stop):
        self.looks.append(free)
        return self.outcome


@pytest.fixture
def phone(tmp_path):
    phone = Phone(tmp_path)
    phone.releases = PlayedReleases()
    phone.start()
    phone.driver.begin()
    return phone


def test_a_look_is_one_job_whose_end_is_noted(phone):
    phone.pass_time(1)
    phone.pass_time(1)
    assert len(phone.worker.jobs) == 1
    phone.work()
    assert (phone.releases.looks, phone.releases.ends) == ([True], [True])


@pytest.mark.parametrize("lost", [Condition.CHARGING, Condition.UNMETERED])
def test_fetching_is_stopped_when_it_begins_to_cost_and_then_only_what_is_urgent_is_fetched(phone, lost):
    phone.pass_time(1)
    phone.conditions.lost.add(lost)
    phone.pass_time(1)
    assert phone.worker.stopped == {1}
    assert phone.releases.ends == [False]
    phone.pass_time(1)
    phone.work()  # the stopped one, of which nothing more is heard
    phone.work()
    assert phone.releases.looks == [True, False]
    assert phone.releases.ends == [False, True]


def test_a_session_comes_before_a_release(phone):
    phone.releases.is_due = False
    phone.pass_time(1)
    phone.pass_time(120)
    phone.releases.is_due = True
    phone.pass_time(1)
    phone.be_assigned()
    assert phone.worker.stopped == {1}
    phone.pass_time(1)
    assert len(phone.worker.jobs) == 2  # no other look while the session lasts


def test_a_look_that_sessions_stopped_three_times_comes_before_the_next_one(phone):
    for number in range(1, MOST_STOPS + 1):
        phone.pass_time(1)
        phone.pass_time(120)
        assert phone.state == "checked-in"
        phone.be_assigned(number)
        phone.conditions.lost.add(Condition.IDLE)
        phone.pass_time(1)
        phone.conditions.lost.clear()
    phone.pass_time(1)
    phone.pass_time(120)
    assert (phone.state, phone.transport.of("status")[-1].reason) == ("ineligible", FIRST.reason)
    while phone.worker.jobs:
        phone.work()
    assert phone.releases.ends == [False] * MOST_STOPS + [True]
    phone.pass_time(1)
    phone.pass_time(120)
    assert phone.state == "checked-in"


def test_what_was_refused_is_told_until_it_is_over(phone):
    phone.releases.outcome = ReleaseCheckDone(
        "release 0.2.0 was not fetched", "0.2.0: artifact 1234: expected other bytes"
    )
    phone.pass_time(1)
    phone.work()
    phone.pass_time(2)
    assert phone.transport.of("status")[-1].rolled_back == "0.2.0: artifact 1234: expected other bytes"
    phone.releases.outcome, phone.releases.is_due = (
        ReleaseCheckDone("release 0.1.0 is what this device should have"),
        True,
    )
    phone.pass_time(1)
    phone.work()
    phone.pass_time(2)
    assert phone.transport.of("status")[-1].rolled_back == ""


def test_a_look_that_fails_is_no_end_of_the_agent(phone):
    def fails(free, should_stop):
        raise UnavailableError("the coordinator is away")

    phone.releases.look = fails
    phone.pass_time(1)
    phone.work()
    assert phone.releases.ends == [True]


def looking(folder):
    return Looking(
        device="porch-01", coordinator_url="http://127.0.0.1:9", data_dir=str(folder / "data"), release=str(folder),
        record=str(folder / "releases.json"),
    )  # fmt: skip


def test_a_device_looks_soon_after_its_start_then_hourly_and_rarely_where_it_costs(tmp_path):
    watch = ReleaseProcess(looking(tmp_path), lambda: 0.5)
    assert not watch.due(1000.0, free=True)
    assert watch.due(1000.0 + FIRST_WITHIN_S / 2, free=False)
    watch.ended(2000.0, whole=True)
    assert not watch.due(2000.0 + LOOK_EVERY_S - 1, free=True)
    assert watch.due(2000.0 + LOOK_EVERY_S, free=True)
    assert not watch.due(2000.0 + COSTLY_EVERY_S - 1, free=False)
    assert watch.due(2000.0 + COSTLY_EVERY_S, free=False)
    watch.ended(3000.0, whole=False)
    assert watch.due(3000.0, free=False)


def test_an_emulated_phone_looks_at_once_and_as_often_as_it_lives_fast(tmp_path):
    watch = ReleaseProcess(looking(tmp_path), lambda: 0.5, hurry=3600.0)
    assert watch.due(5.0, free=False)
    watch.ended(5.0, whole=True)
    assert watch.due(6.0, free=True)


def test_the_process_says_why_it_could_not_look(tmp_path):
    with pytest.raises(UnavailableError, match=r"ended with status 3: .*manifest\.json"):
        ReleaseProcess(looking(tmp_path), lambda: 0.5).look(True, lambda: False)


def test_a_look_can_be_stopped(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"agent": "0.1.0", "platform": "trixie-aarch64"}))
    with pytest.raises(UnavailableError, match="stopped"):
        ReleaseProcess(looking(tmp_path), lambda: 0.5).look(True, lambda: True)
