"""A device in the secure sum of a round: the real driver and database, the real coordinator's machine, three others."""

import dataclasses
import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from nightjar.coordinator.learning.summed import unmasked_sum
from nightjar.coordinator.rounds import secure_sum as coordinator_side
from nightjar.coordinator.rounds.secure_sum import Send, StepContext, SumPhase, TimeUp, Unmask, open_session
from nightjar.edge_agent.core import secure_sum as device_side
from nightjar.edge_agent.core.eligibility import Condition
from nightjar.edge_agent.core.lifecycle import REST_AFTER_REFUSAL_S
from nightjar.edge_agent.core.secure_sum import Tools, UpdateEncoded
from nightjar.edge_agent.core.sum_steps import HearQuestion, JoinSum
from nightjar.edge_agent.inbox import Arrived, LinkUp
from nightjar.edge_agent.shell.sum_process import SumInProcess, SumProcess
from nightjar.simulation.rounds.ports import enrolled_key
from nightjar.wire import frame, topics
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.limits import Limits
from nightjar.wire.messages import DropoutCause, Receipt, Verdict
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.low_rank import Rank, bases_of, decode, group_sizes, to_bytes
from nightjar.wire.secure_sum.low_rank import encode as encode_update
from nightjar.wire.secure_sum.messages import Confirmation, Deliveries, MaskedUpdate, decode_up, encode
from nightjar.wire.secure_sum.order import BINDING, SumOrder, contribution, read_sum, terms_of
from nightjar.wire.secure_sum.session import terms_of_assignment
from tests.edge_agent.fakes import LAYOUT, Phone, assignment
from tests.secure_sums import PRIMITIVES

RANK = Rank(rows=1000, right=4, left=8)
ORDER = SumOrder(
    number=5,
    threshold=2,
    cohort=4,
    rank=RANK,
    grid=Grid(step=0.05, most=127),
    clip_norm=50.0,
    most_examples=10,
    binding=BINDING,
)
BASES = bases_of(np.zeros(LAYOUT.size, np.float32), LAYOUT, RANK, np.random.default_rng(0))
SPREAD = np.ones(len(group_sizes(LAYOUT, RANK)), np.float32)
MINIMUM = 3
OTHERS = (1, 2, 3)


class SummedRound:
    """A round of the phone and three devices without a driver."""

    def __init__(
        self, phone: Phone, number: int = 7, order: SumOrder = ORDER, others: SumOrder | None = None, **changes
    ) -> None:
        """``others`` is what the coordinator orders the three others to give, if not the same."""
        data = to_bytes(BASES, SPREAD)
        path = phone.folder / hashlib.sha256(data).hexdigest()
        path.write_bytes(data)
        phone.model = phone.artifacts.model = dataclasses.replace(phone.model, bases=path)
        self.phone, self.number, self.waiting = phone, number, None
        self.assigned = assignment(
            phone.model,
            number,
            minimum=MINIMUM,
            secure_sum=order,
            **changes,
        )
        self.order_of_others = others or order
        self.terms = terms_of_assignment(replace(self.assigned, secure_sum=self.order_of_others), LAYOUT, "demo")
        self.session = open_session(self.terms, [enrolled_key(each).public for each in (0, *OTHERS)])
        self.states, self.updates, self.plan, self.values = {}, {}, None, {}
        self.silent = ()

    def begin(self) -> None:
        for number in OTHERS:
            key = enrolled_key(number)
            self.states[number], sent = device_side.join(
                self.terms, bytes([number] * 32), key.public, Tools(PRIMITIVES, key.sign)
            )
            self.hear(number, sent)
        self.phone.check_in()
        self.phone.hear(self.assigned)
        self.phone.work()

    def hear(self, number, sent) -> None:
        for message in sent:
            self.step(message, enrolled_key(number).public)

    def step(self, event, sender=b"") -> None:
        """The coordinator hears something, and asks; the others answer at once, the phone only on :meth:`pass_on`."""
        self.session, effects = coordinator_side.step(self.session, event, StepContext(PRIMITIVES, sender))
        for effect in effects:
            match effect:
                case Send(receiver, message):
                    numbers = {enrolled_key(each).public: each for each in (0, *OTHERS)}
                    self.ask(numbers[receiver], message)
                case coordinator_side.KeepValues(member, values):
                    self.values[member] = values
                case Unmask():
                    self.plan = effect

    def ask(self, number, message) -> None:
        if number == 0:
            self.waiting = message
            return
        key = enrolled_key(number)
        tools = Tools(PRIMITIVES, key.sign)
        self.states[number], sent = device_side.step(self.states[number], message, tools)
        if isinstance(message, Deliveries) and number in self.silent:
            return
        if isinstance(message, Deliveries):
            update = np.full(LAYOUT.size, number / 10, np.float32)
            words = contribution(
                update, 10, self.order_of_others, LAYOUT, BASES, SPREAD, *2 * [np.random.default_rng(number)]
            )
            self.updates[number] = words
            self.states[number], sent = device_side.step(self.states[number], UpdateEncoded(words), tools)
        self.hear(number, sent)

    def pass_on(self) -> None:
        """Give the phone what the coordinator has asked it last, and the coordinator what it answers."""
        asked, self.waiting = self.waiting, None
        self.tell(asked)
        self.collect()

    def tell(self, message) -> None:
        topic = topics.down(Population("demo"), DeviceId("phone"), topics.SUM_QUESTION)
        self.phone.driver.handle(Arrived(topic, encode(message)))

    def collect(self) -> None:
        sent = self.phone.transport.of(topics.SUM_ANSWER)
        self.phone.transport.sent = [each for each in self.phone.transport.sent if each[0] != topics.SUM_ANSWER]
        self.hear(0, sent)

    def report(self) -> frame.Report:
        return frame.decode(self.phone.transport.of("report")[-1])

    def take_report(self) -> None:
        self.hear(0, [decode_up(self.report().payload)])
        self.phone.hear(Receipt(round=self.number, attempt=1, verdict=Verdict.ACCEPTED, retry_after_s=600.0))


def sums_of(phone):
    return phone.database.load().summing


@pytest.fixture
def summed(tmp_path):
    summed = SummedRound(Phone(tmp_path))
    summed.begin()
    return summed


def until_reported(summed) -> None:
    summed.collect()
    summed.pass_on()
    summed.pass_on()
    summed.phone.work()
    summed.take_report()


def test_the_coordinator_learns_the_sum_and_the_report_says_nothing_else(summed):
    assert summed.phone.state == "training"
    assert summed.session.phase is SumPhase.KEYS, "the keys are sent before the training"
    until_reported(summed)
    report = summed.report()
    said = (report.codec, report.num_examples, report.steps, report.loss, report.seconds, report.evaluation)
    assert said == (frame.MASKED_UPDATE, 0, 0, 0.0, 0.0, None)
    assert isinstance(decode_up(report.payload), MaskedUpdate)
    summed.pass_on()
    summed.pass_on()
    assert summed.session.phase is SumPhase.DONE
    total = unmasked_sum(summed.plan, summed.values.values(), PRIMITIVES)
    found = read_sum(total, ORDER, LAYOUT, BASES, SPREAD)
    assert found.within == 4
    own = (total - sum(summed.updates.values())) & np.uint32(2**summed.terms.bits - 1)
    alone = read_sum(own, ORDER, LAYOUT, BASES, SPREAD)
    trained = (0.5 * np.linspace(0.5, 1.5, LAYOUT.size)).astype(np.float32)
    assert alone.within == 1
    kept = decode(encode_update(trained, LAYOUT, BASES), LAYOUT, BASES)
    assert np.linalg.norm(alone.mean - kept) < 0.1 * np.linalg.norm(kept)
    assert summed.phone.database.tally().last_report_summed
    assert sums_of(summed.phone).phase == "disclosed"


NOTHING = replace(ORDER, clip_norm=1e-9)


def test_a_coordinator_that_orders_all_others_to_give_nothing_learns_no_update(tmp_path):
    attacked = SummedRound(Phone(tmp_path), others=NOTHING)
    attacked.begin()
    attacked.collect()
    if attacked.session.phase is SumPhase.KEYS:  # the victim is in another session: the others go on without it
        attacked.step(TimeUp())
    attacked.phone.work()
    for _ in range(4):
        if attacked.waiting is not None:
            attacked.pass_on()
        if attacked.phone.transport.of("report"):
            attacked.hear(0, [decode_up(attacked.report().payload)])
    assert attacked.session.phase is SumPhase.DONE
    total = unmasked_sum(attacked.plan, attacked.values.values(), PRIMITIVES)
    learned = 4 * read_sum(total, ORDER, LAYOUT, BASES, SPREAD).mean  # three weigh as much, and give nothing
    trained = (0.5 * np.linspace(0.5, 1.5, LAYOUT.size)).astype(np.float32)
    kept = decode(encode_update(trained, LAYOUT, BASES), LAYOUT, BASES)
    gain = float(learned @ kept) / float(kept @ kept)
    assert abs(gain) < 0.1, "the sum has the victim's update"


def again(summed, number, silent=()):
    """Another round on the same weights, in which some devices fall silent before they report; how far it came."""
    following = SummedRound(summed.phone, number)
    following.silent = silent
    following.phone.pass_time(REST_AFTER_REFUSAL_S + 600)
    following.begin()
    following.collect()
    following.pass_on()
    following.phone.work()
    following.tell(following.waiting)
    following.take_report()
    if silent:
        following.step(TimeUp())
    following.pass_on()
    return following


HOUSEHOLD = Limits(household=True, density=1.0)


def test_a_device_opens_no_sum_that_another_on_the_same_weights_could_be_subtracted_from(tmp_path):
    first = SummedRound(Phone(tmp_path, limits=HOUSEHOLD))
    first.begin()
    until_reported(first)
    first.pass_on()
    first.pass_on()
    assert first.session.phase is SumPhase.DONE
    same = again(first, 8)
    same.pass_on()
    assert same.session.phase is SumPhase.DONE, "the same devices"
    fewer = again(same, 9, silent=(3,))
    assert sums_of(fewer.phone).phase == "aborted", "all sums less this one would be the update of the third"


def test_a_sum_that_was_not_opened_does_not_count_on_the_device(tmp_path):
    first = SummedRound(Phone(tmp_path, limits=HOUSEHOLD))
    first.begin()
    until_reported(first)
    first.phone.kill()
    fewer = again(first, 8, silent=(3,))
    assert sums_of(fewer.phone).phase == "confirmed"


def test_a_sum_of_a_coordinator_of_before_is_refused_in_words(tmp_path):
    before = SummedRound(Phone(tmp_path))
    before.assigned = replace(before.assigned, secure_sum=replace(ORDER, binding=0))
    before.begin()
    (dropout,) = before.phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.OUTSIDE_LIMITS
    assert "update the coordinator" in dropout.detail
    assert not before.phone.transport.of(topics.SUM_ANSWER)


def test_shares_that_come_after_the_training_are_waited_for(summed):
    summed.phone.work()
    assert summed.phone.state == "training"
    summed.collect()
    summed.pass_on()
    assert not summed.phone.transport.of("report")
    summed.pass_on()
    assert summed.phone.state == "reporting"
    assert summed.phone.transport.of("report")


@pytest.mark.parametrize("lost", [Condition.IDLE, Condition.CHARGING])
def test_after_its_report_a_device_answers_whatever_it_does_and_after_a_kill(summed, lost):
    until_reported(summed)
    summed.phone.conditions.lost.add(lost)
    summed.phone.pass_time(1)
    summed.phone.kill()
    summed.pass_on()
    summed.phone.kill()
    summed.pass_on()
    assert summed.session.phase is SumPhase.DONE


def test_a_question_that_comes_again_gets_the_same_answer_and_changes_nothing(summed):
    until_reported(summed)
    asked = summed.waiting
    summed.pass_on()
    summed.tell(asked)
    summed.phone.kill()
    summed.tell(asked)
    (again,) = summed.phone.transport.of(topics.SUM_ANSWER)
    assert isinstance(again, Confirmation)
    assert again.signature in summed.session.confirmations.values()


def test_on_a_metered_network_nothing_is_answered_after_the_report(summed):
    until_reported(summed)
    summed.phone.conditions.lost.add(Condition.UNMETERED)
    summed.phone.pass_time(1)
    asked = summed.waiting
    summed.tell(asked)
    assert not summed.phone.transport.of(topics.SUM_ANSWER)
    summed.phone.conditions.lost.clear()
    summed.phone.pass_time(1)
    summed.tell(asked)
    assert summed.phone.transport.of(topics.SUM_ANSWER)


def test_keys_are_sent_again_with_a_new_connection(summed):
    before = summed.phone.transport.of(topics.SUM_ANSWER)
    summed.phone.driver.handle(LinkUp())
    assert summed.phone.transport.of(topics.SUM_ANSWER) == [*before, *before]


def test_a_device_that_gave_up_or_was_killed_answers_no_more_and_never_joins_that_session_again(summed):
    summed.collect()
    summed.phone.kill()
    summed.tell(summed.waiting)
    assert not summed.phone.transport.of(topics.SUM_ANSWER)
    summed.phone.check_in()
    summed.phone.hear(summed.assigned)
    summed.phone.work()
    assert not summed.phone.transport.of(topics.SUM_ANSWER)
    assert summed.phone.transport.of("dropout")[-1].round == summed.number


def test_unplugged_while_training_the_state_is_deleted(summed):
    summed.collect()
    summed.phone.conditions.lost.add(Condition.CHARGING)
    summed.phone.pass_time(1)
    assert summed.phone.state == "ineligible"
    assert not sums_of(summed.phone).state


def test_a_device_that_is_left_out_stops_to_train_and_says_so(summed):
    summed.phone.transport.sent.clear()
    summed.step(TimeUp())
    survivors = coordinator_side.Survivors(summed.terms.session, b"\x07", bytes(128))
    summed.tell(survivors)
    (dropout,) = summed.phone.transport.of("dropout")
    assert dropout.cause is DropoutCause.OUT_OF_TIME
    assert "without this device" in dropout.detail
    assert summed.phone.worker.stopped
    assert not sums_of(summed.phone).state


def test_a_late_report_ends_the_session(summed):
    summed.collect()
    summed.pass_on()
    summed.pass_on()
    summed.phone.work()
    assert sums_of(summed.phone).phase == "masked"
    summed.phone.hear(Receipt(round=summed.number, attempt=1, verdict=Verdict.LATE))
    assert not sums_of(summed.phone).state


def test_a_wipe_deletes_the_state_but_not_which_session_it_was(summed):
    until_reported(summed)
    before = sums_of(summed.phone)
    summed.phone.database.wipe()
    kept = sums_of(summed.phone)
    assert (kept.state, kept.number, kept.round) == (b"", before.number, before.round)


def test_messages_of_other_sessions_change_nothing(summed):
    summed.tell(Deliveries(bytes(32), b"\x0f", b""))
    assert summed.phone.state == "training"


def test_a_step_in_a_process_of_its_own_gives_what_one_in_this_process_gives(tmp_path):
    folder = tmp_path / "identity"
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "credential.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    terms = terms_of(ORDER, LAYOUT, MINIMUM, bytes(32))
    joined = SumProcess(tmp_path)(JoinSum(terms))
    assert joined.phase == "joined"
    question = encode(Deliveries(terms.session, b"\x0f", b""))
    ended = SumInProcess(tmp_path)(HearQuestion(joined.state, question))
    assert (ended.phase, ended.state) == ("aborted", b"")
    assert "too early" in ended.reason


def test_a_round_that_is_over_before_the_report_ends_the_work(summed):
    summed.phone.hear(Receipt(round=summed.number, attempt=2, verdict=Verdict.LATE))
    assert summed.phone.state == "training", "another attempt"
    summed.phone.hear(Receipt(round=summed.number, attempt=1, verdict=Verdict.LATE))
    assert summed.phone.state == "resting"
    assert summed.phone.worker.stopped
    assert not sums_of(summed.phone).state
