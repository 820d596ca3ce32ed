"""The keyboard's model: fetched when it is announced, shown when it has arrived."""

import structlog

from nightjar.edge_agent.core.eligibility import Condition
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import Announcement, Canary, DropoutCause
from nightjar.wire.shares import is_canary
from tests.edge_agent.fakes import Phone, assignment, receipt, to_report, write_model


def test_the_announced_model_is_fetched_for_the_keyboard(tmp_path):
    phone = Phone(tmp_path, keyboard=True)
    phone.driver.begin()
    phone.hear(Announcement(version=0, manifest=phone.model.sha256))
    phone.pass_time(1)
    phone.work()
    assert phone.shown == [0]
    phone.pass_time(1)
    assert phone.worker.jobs == []


def test_only_the_canaries_of_a_version_take_it_and_go_back_when_it_is_gone(tmp_path):
    phone = Phone(tmp_path, keyboard=True)
    newer = write_model(tmp_path / "files", 1)
    phone.artifacts.others[newer.sha256] = newer
    phone.driver.begin()
    among = next(n for n in range(1, 99) if is_canary("phone", newer.sha256, n / 100))
    for share, expected in [((among - 1) / 100, [0]), (among / 100, [0, 1]), (None, [0, 1, 0])]:
        canary = None if not share else Canary(version=1, manifest=newer.sha256, share=share)
        phone.hear(Announcement(version=0, manifest=phone.model.sha256, canary=canary))
        phone.pass_time(1)
        phone.work()
        assert phone.shown == expected


def test_what_the_coordinator_did_not_sign_is_not_fetched_and_said(tmp_path):
    phone = Phone(tmp_path, keyboard=True)
    phone.trust.refuses = {phone.model.sha256}
    phone.driver.begin()
    phone.hear(Announcement(version=0, manifest=phone.model.sha256, key="5" * 64))
    phone.pass_time(1)
    phone.work()
    assert (phone.shown, phone.artifacts.fetched, phone.trust.keys) == ([], [], ["5" * 64])
    phone.pass_time(120)
    phone.work()  # the keyboard's second try
    phone.be_assigned()
    phone.work()
    (dropout,) = phone.transport.of("dropout")
    assert (dropout.cause, dropout.detail) == (DropoutCause.UNTRUSTED, "nobody signed it")
    assert phone.artifacts.fetched == []


def test_without_a_keyboard_an_announced_model_waits_for_an_assignment(phone):
    phone.driver.begin()
    phone.hear(Announcement(version=0, manifest=phone.model.sha256))
    phone.pass_time(1)
    assert phone.worker.jobs == []


def test_nothing_is_fetched_over_a_metered_network_or_during_a_session(tmp_path):
    phone = Phone(tmp_path, keyboard=True)
    phone.conditions.lost = {Condition.UNMETERED}
    phone.driver.begin()
    phone.hear(Announcement(version=0, manifest=phone.model.sha256))
    phone.pass_time(1)
    assert phone.worker.jobs == []
    phone.conditions.lost = set()
    phone.artifacts.failure = UnavailableError("down")
    phone.pass_time(1)
    phone.work()
    phone.artifacts.failure = None
    phone.pass_time(20)
    assert phone.worker.jobs == []
    phone.pass_time(100)
    assert len(phone.worker.jobs) == 1


def test_the_keyboard_does_not_get_the_version_of_a_session_before_it_is_announced(tmp_path):
    phone = Phone(tmp_path, keyboard=True)
    phone.driver.begin()
    phone.hear(Announcement(version=0, manifest=phone.model.sha256))
    phone.pass_time(1)
    phone.work()
    newer = write_model(tmp_path / "files", 1)
    phone.artifacts.others[newer.sha256] = newer
    phone.pass_time(120)
    phone.hear(assignment(newer))
    phone.work()
    phone.work()
    assert phone.state == "reporting"
    assert phone.shown == [0]
    phone.kill()
    assert phone.shown == [0, 0]
    phone.hear(Announcement(version=1, manifest=newer.sha256))
    phone.pass_time(1)
    phone.work()
    assert phone.shown == [0, 0, 1]


def test_a_keyboard_without_any_model_shows_that_of_a_session_until_one_is_announced(tmp_path):
    phone = Phone(tmp_path, keyboard=True)
    to_report(phone)
    phone.hear(receipt())
    newer = write_model(tmp_path / "files", 1)
    phone.artifacts.others[newer.sha256] = newer
    phone.pass_time(1)
    phone.hear(assignment(newer, 2))
    phone.work()
    assert phone.shown == [0]


def test_a_model_that_the_keyboard_refuses_does_not_disturb_the_round(tmp_path):
    phone = Phone(tmp_path, keyboard=True)

    def refuse(_model):
        raise UnavailableError("gone")

    phone.show = refuse
    phone.start()
    with structlog.testing.capture_logs() as logs:
        to_report(phone)
    assert [entry["error"] for entry in logs if entry["event"] == "keyboard_model_refused"] == ["gone"]
    assert phone.state == "reporting"
