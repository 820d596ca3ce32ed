"""The driver with fakes around it and a real database under it: stories, and kills in every state."""

import queue

import numpy as np
import pytest

from nightjar.edge_agent.core.eligibility import Condition
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.inbox import Arrived, LinkDown, LinkUp, StopAsked, WorkDone
from nightjar.models.batches import pack
from nightjar.models.vocabulary import words
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import shard_of
from nightjar.wire.messages import (
    Announcement,
    CheckIn,
    CodecChoice,
    DropoutCause,
    Rejection,
    RejectionReason,
    Status,
    TrainingPlan,
)
from tests.edge_agent.fakes import LAYOUT, VOCABULARY, Phone, receipt, to_report


def test_a_whole_round(phone):
    phone.driver.begin()
    phone.pass_time(1)
    assert phone.state == "settling"
    phone.pass_time(119)
    assert phone.state == "settling"
    phone.pass_time(1)
    assert phone.state == "checked-in"
    assert phone.transport.of("check-in") == [
        CheckIn(
            agent_version="0.1.0",
            runtime="fake 1.0",
            examples=2,
            codecs=("bound-sum", "sampled-4"),
            cores=4,
            memory_bytes=10**9,
            emulated=True,
            kinds=("train", "evaluate"),
        )
    ]
    phone.be_assigned(7)
    assert phone.state == "preparing"
    phone.work()
    assert phone.artifacts.fetched == [phone.model.sha256]
    assert phone.state == "training"
    phone.work()
    assert phone.state == "reporting"
    (sent,) = phone.transport.of("report")
    report = frame.decode(sent)
    expected = pack([VOCABULARY.encode(words(t)) for t in phone.database.texts()], 2, 6)
    assert (report.round, report.attempt, report.version, report.codec) == (7, 1, 0, 4)
    assert report.layout == LAYOUT.fingerprint
    assert report.num_examples == expected.targets
    assert report.steps == len(expected)
    phone.hear(receipt(number=7, retry_after_s=30))
    assert phone.state == "resting"
    assert phone.database.tally().reports_sent == 1
    phone.pass_time(29)
    assert phone.state == "resting"
    phone.pass_time(1)
    assert phone.state == "checked-in"
    held = phone.transport.of("check-in")[-1]
    assert held.weights == phone.model.manifest.weights.sha256


def test_the_status_says_every_state_that_lasts_with_its_reason(phone):
    phone.check_in()
    phone.pass_time(2)
    phone.be_assigned()
    phone.pass_time(2)
    phone.work()
    phone.pass_time(2)
    phone.work()
    states = [s.state for s in phone.transport.of("status")]
    assert states == ["settling", "checked-in", "preparing", "training", "reporting"]
    assert all(s.online and s.reason and s.emulated for s in phone.transport.of("status"))


def test_of_states_within_a_second_the_status_says_the_first_and_the_last(phone):
    to_report(phone)
    assert [s.state for s in phone.transport.of("status")] == ["settling", "checked-in"]
    said_at_s = phone.clock.now_s
    assert phone.driver.due_at_s() == said_at_s + 1.0
    phone.pass_time(0.5)
    assert phone.transport.of("status")[-1].state == "checked-in"
    phone.pass_time(0.5)
    assert [s.state for s in phone.transport.of("status")] == ["settling", "checked-in", "reporting"]
    phone.pass_time(60)
    assert len(phone.transport.of("status")) == 3, "said once"


def test_the_status_is_said_at_once_when_the_broker_has_told_the_last_will(phone):
    to_report(phone)
    phone.driver.handle(LinkDown("gone"))
    phone.driver.handle(LinkUp())
    assert [s.state for s in phone.transport.of("status")][-1] == "reporting"


def test_the_update_in_the_report_is_what_the_codec_makes_of_the_delta(phone):
    to_report(phone, codec=CodecChoice(name="dense-f32"))
    report = frame.decode(phone.transport.of("report")[0])
    update = codec_for(CodecChoice(name="dense-f32")).decode(report.payload, LAYOUT).dense()
    np.testing.assert_array_equal(update, phone.programs[0].delta())


@pytest.mark.parametrize(
    ("condition", "cause"),
    [
        (Condition.CHARGING, DropoutCause.UNPLUGGED),
        (Condition.IDLE, DropoutCause.IN_USE),
        (Condition.UNMETERED, DropoutCause.METERED),
        (Condition.COOL, DropoutCause.TOO_HOT),
        (Condition.BATTERY_HIGH, DropoutCause.LOW_BATTERY),
    ],
)
@pytest.mark.parametrize("working", ["preparing", "training"])
def test_conditions_lost_at_work_stop_it_and_tell_the_coordinator_why(phone, condition, cause, working):
    phone.check_in()
    phone.be_assigned()
    if working == "training":
        phone.work()
    assert phone.state == working
    phone.conditions.lost = {condition}
    phone.pass_time(1)
    assert phone.state == "ineligible"
    (dropout,) = phone.transport.of("dropout")
    assert (dropout.round, dropout.attempt, dropout.cause) == (1, 1, cause)
    assert phone.worker.stopped == {phone.worker.jobs[0].number}
    phone.work()
    assert phone.state == "ineligible"
    assert phone.transport.of("report") == []


def test_conditions_lost_in_the_pool_need_no_dropout_but_a_status(phone):
    phone.check_in()
    phone.conditions.lost = {Condition.CHARGING}
    phone.pass_time(1)
    assert phone.transport.of("dropout") == []
    assert phone.transport.of("status")[-1] == Status(
        online=True, state="ineligible", reason="no charging", emulated=True, agent_version="0.1.0"
    )


def test_an_assignment_that_comes_too_late_is_answered_with_the_reason(phone):
    phone.check_in()
    phone.conditions.lost = {Condition.IDLE}
    phone.pass_time(1)
    phone.be_assigned()
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.IN_USE


def test_a_report_is_finished_although_the_phone_is_unplugged(phone):
    to_report(phone)
    phone.conditions.lost = {Condition.CHARGING}
    phone.pass_time(60)
    assert phone.state == "reporting"
    phone.hear(receipt())
    phone.pass_time(1)
    assert phone.state == "ineligible"


KEEPING = TrainingPlan(learning_rate=0.5, clip_norm=1.0, keep_share=0.5)


def test_a_phone_that_is_unplugged_in_the_middle_keeps_what_is_enough(phone):
    phone.check_in()
    phone.be_assigned(plan=KEEPING, report_deadline_s=600.0)
    phone.work()
    phone.conditions.lost = {Condition.CHARGING}
    phone.pass_time(1)
    assert phone.state == "finishing"
    assert phone.transport.of("dropout") == []
    phone.worker.stopped.clear()  # as if the last step had been done just before
    phone.work()
    assert phone.state == "reporting"


def test_a_phone_that_is_unplugged_too_early_drops_out_for_that_and_not_for_the_stop(phone):
    phone.check_in()
    phone.be_assigned(plan=KEEPING, report_deadline_s=600.0)
    phone.work()
    phone.conditions.lost = {Condition.CHARGING}
    phone.pass_time(1)
    phone.work()
    assert phone.state == "ineligible"
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.UNPLUGGED


def test_a_download_ends_when_the_card_was_written_enough(phone):
    phone.check_in()
    phone.be_assigned()
    phone.worn = True
    phone.work()
    assert phone.state == "resting"
    assert phone.artifacts.held is None


@pytest.mark.parametrize("worn", [False, True])
def test_orders_to_an_idle_device_are_not_written_down_once_the_card_was_written_enough(phone, worn):
    phone.driver.begin()
    phone.transport.connected = True
    phone.worn = worn
    before = phone.database.transactions
    for number in range(20):
        phone.be_assigned(number)
    assert (phone.database.transactions - before >= 20) is not worn
    assert bool(phone.transport.of("dropout")) is not worn


def test_the_deadline_ends_a_training_that_takes_too_long(phone):
    phone.check_in()
    phone.be_assigned()
    phone.work()
    phone.pass_time(60)
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.OUT_OF_TIME
    assert phone.worker.stopped


def test_a_duplicate_assignment_does_nothing(phone):
    phone.check_in()
    phone.be_assigned()
    phone.be_assigned()
    phone.work()
    phone.be_assigned()
    phone.work()
    phone.be_assigned()
    phone.hear(receipt())
    phone.be_assigned()
    assert len(phone.transport.of("report")) == 1
    assert phone.transport.of("dropout") == []
    assert phone.worker.jobs == []


def test_no_words_in_the_vocabulary_still_train_and_no_message_at_all_is_ineligible(tmp_path):
    phone = Phone(tmp_path)
    phone.database.close()
    (tmp_path / "agent.db").unlink()
    phone.start()
    phone.driver.begin()
    phone.pass_time(1)
    assert phone.state == "ineligible"
    assert phone.transport.of("status")[-1].reason == "no examples yet"
    phone.database.add("zebra")
    phone.pass_time(1)
    assert phone.state == "settling"


@pytest.mark.parametrize(
    ("failure", "detail"), [(UnavailableError("down"), "down"), (KeyError("typed text"), "unforeseen KeyError")]
)
def test_a_model_that_cannot_be_fetched_is_a_dropout(phone, failure, detail):
    phone.artifacts.failure = failure
    phone.check_in()
    phone.be_assigned()
    phone.work()
    (dropout,) = phone.transport.of("dropout")
    assert (dropout.cause, dropout.detail) == (DropoutCause.FETCH_FAILED, detail)
    assert phone.state == "resting"


def test_a_manifest_of_another_version_is_a_dropout(phone):
    phone.check_in()
    phone.be_assigned(version=5)
    phone.work()
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.FETCH_FAILED
    assert "expected the manifest of version 5, got that of 0" in dropout.detail


def test_an_unknown_codec_is_a_dropout_and_nothing_is_trained(phone):
    phone.check_in()
    phone.be_assigned(codec=CodecChoice(name="from-the-future"))
    phone.work()
    phone.work()
    (dropout,) = phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.TRAINING_FAILED
    assert phone.programs == []


def test_nan_is_a_dropout(tmp_path):
    phone = Phone(tmp_path, losses=(float("nan"),))
    to_report(phone)
    assert phone.state == "resting"
    assert phone.transport.of("dropout")[0].cause is DropoutCause.DIVERGED


def test_a_rejection_is_kept_to(phone):
    phone.check_in()
    phone.hear(Rejection(reason=RejectionReason.NOT_SELECTED, retry_after_s=300))
    phone.pass_time(299)
    assert phone.state == "resting"
    phone.pass_time(1)
    assert phone.state == "checked-in"


def test_silence_is_met_with_another_check_in(phone):
    phone.check_in()
    phone.pass_time(14)
    assert len(phone.transport.of("check-in")) == 1
    phone.pass_time(2)
    assert len(phone.transport.of("check-in")) == 2


def test_a_dropout_of_an_offline_phone_is_said_when_it_is_back(phone):
    phone.check_in()
    phone.be_assigned()
    phone.transport.connected = False
    phone.conditions.lost = {Condition.CHARGING}
    phone.pass_time(1)
    assert phone.transport.of("dropout") == []
    phone.transport.connected = True
    phone.driver.handle(LinkUp())
    assert [d.cause for d in phone.transport.of("dropout")] == [DropoutCause.UNPLUGGED]
    phone.driver.handle(LinkUp())
    assert len(phone.transport.of("dropout")) == 1


def test_a_phone_that_comes_back_checks_in_again(phone):
    phone.check_in()
    phone.driver.handle(LinkUp())
    assert len(phone.transport.of("check-in")) == 2


def test_stopping_at_work_says_so(phone):
    phone.check_in()
    phone.be_assigned()
    phone.work()
    phone.driver.handle(StopAsked())
    assert [d.cause for d in phone.transport.of("dropout")] == [DropoutCause.RESTARTED]
    assert phone.worker.stopped
    phone.kill()
    assert phone.transport.of("dropout") == []


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("nightjar/1/demo/down/phone/assignment", b"{}"),
        ("nightjar/1/demo/down/phone/assignment", b"\xff\x00" * 100),
        ("nightjar/1/demo/down/phone/receipt", b'{"round":-1,"attempt":1,"verdict":"accepted"}'),
        ("nightjar/1/demo/announce", b'{"version":0,"manifest":"../../etc/passwd"}'),
        ("nightjar/9/whatever", b"x"),
        ("nightjar/1/demo/status/phone", b"x"),
    ],
)
def test_foreign_bytes_change_nothing(phone, topic, payload):
    phone.check_in()
    before = phone.driver.state
    phone.driver.handle(Arrived(topic, payload))
    assert phone.driver.state == before


def test_stale_outcomes_of_stopped_work_are_dropped(phone):
    phone.check_in()
    phone.be_assigned(1)
    phone.conditions.lost = {Condition.CHARGING}
    phone.pass_time(1)
    stale = WorkDone(phone.worker.jobs[0].number, TrainingStopped(DropoutCause.IN_USE, "asked to stop"))
    phone.worker.jobs.clear()
    phone.conditions.lost = set()
    phone.pass_time(1)
    phone.pass_time(120)
    phone.be_assigned(2)
    phone.driver.handle(stale)
    assert phone.state == "preparing"
    assert [d.round for d in phone.transport.of("dropout")] == [1]


def test_who_was_sent_away_while_no_task_wanted_it_comes_back_when_one_is_resumed(phone):
    phone.check_in()
    said = {"version": 0, "manifest": phone.model.sha256}
    phone.hear(Announcement(**said, recall=7))
    phone.hear(Rejection(reason=RejectionReason.NO_TASK, retry_after_s=900, detail="the task is paused"))
    sent = len(phone.transport.of("check-in"))
    phone.hear(Announcement(**said, recall=7))
    phone.pass_time(5)
    assert len(phone.transport.of("check-in")) == sent, "it is the recall from before"
    phone.hear(Announcement(**said, recall=8))
    phone.pass_time(5)
    assert len(phone.transport.of("check-in")) == sent + 1


class SteppingInbox:
    """Nothing comes, and time passes, until it is enough."""

    def __init__(self, clock, until_s):
        self.clock, self.until_s, self.waits_s = clock, until_s, []

    def get(self, timeout):
        if self.clock.now_s >= self.until_s:
            return StopAsked()
        self.waits_s.append(timeout)
        self.clock.now_s += timeout
        raise queue.Empty


def test_the_agent_wakes_when_something_is_due_and_otherwise_now_and_then(phone):
    to_report(phone)
    phone.hear(receipt(retry_after_s=2.25))
    rested_s = phone.clock.now_s + 2.25
    phone.driver._inbox = inbox = SteppingInbox(phone.clock, rested_s)
    phone.driver.begin = lambda: None
    checked_in = len(phone.transport.of("check-in"))
    phone.driver.run()
    assert inbox.waits_s == pytest.approx([1.0, 1.0, 0.25])
    assert len(phone.transport.of("check-in")) == checked_in + 1


def test_what_is_due_and_cannot_be_done_is_not_tried_in_a_circle(phone):
    to_report(phone)
    phone.driver._inbox = inbox = SteppingInbox(phone.clock, phone.clock.now_s + 10.0)
    phone.driver.begin = lambda: None
    phone.driver.due_at_s = lambda: phone.clock.now_s - 1.0
    phone.driver.run()
    assert 0 < len(inbox.waits_s) <= 401, "twenty times a second, or twice that where the clock falls short of a wait"


def test_who_rests_after_a_report_comes_when_the_next_round_opens_and_not_for_an_old_announcement(phone):
    to_report(phone)
    phone.hear(receipt(retry_after_s=900.0))
    assert phone.state == "resting"
    checked_in = len(phone.transport.of("check-in"))
    for manifest in ("1" * 64, "1" * 64):  # retained, and retained again after a reconnect
        phone.hear(Announcement(version=1, manifest=manifest, check_in_within_s=0.1))
        phone.pass_time(1)
    assert len(phone.transport.of("check-in")) == checked_in
    phone.hear(Announcement(version=2, manifest="2" * 64))  # nobody says that all are needed
    phone.pass_time(1)
    assert len(phone.transport.of("check-in")) == checked_in
    phone.hear(Announcement(version=3, manifest="3" * 64, check_in_within_s=0.1))
    phone.pass_time(1)
    assert len(phone.transport.of("check-in")) == checked_in + 1


def test_no_typed_word_is_in_anything_published_or_logged(tmp_path, capfd):
    phone = Phone(tmp_path)
    phone.database.add("xylophone quizzically")
    to_report(phone)
    phone.hear(receipt())
    printed = "".join(capfd.readouterr())
    assert "agent_started" in printed
    for secret in ("xylophone", "quizzically", "cat sat"):
        assert secret not in printed
        assert not any(secret.encode() in payload for payload in phone.transport.raw)


def test_the_plan_reaches_the_training(phone):
    to_report(phone, plan=TrainingPlan(learning_rate=0.25, clip_norm=1.0, local_epochs=3, max_steps=2))
    report = frame.decode(phone.transport.of("report")[0])
    assert report.steps == 2
    assert phone.programs[0].weights[0] == pytest.approx(2 * 0.25 * 0.5)


def test_a_device_speaks_to_the_shard_that_follows_from_the_announced_number(phone):
    phone.check_in()
    phone.hear(Announcement(version=1, manifest="0" * 64, shards=8))
    phone.be_assigned()
    phone.work()
    phone.work()
    up = [topic for topic in phone.transport.topics if "/up/" in topic]
    assert up[0] == "nightjar/1/demo/up/0/phone/check-in"
    assert shard_of("phone", 8) != 0
    assert up[-1] == f"nightjar/1/demo/up/{shard_of('phone', 8)}/phone/report"
