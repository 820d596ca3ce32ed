"""Rounds whose coordinator learns only the sum: the real driver and database, devices with the real machine."""

import itertools

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from nightjar.coordinator.engine.aggregation import with_bases
from nightjar.coordinator.learning.strategies import state_from_bytes
from nightjar.coordinator.records.inbox import JobEnded
from nightjar.coordinator.records.jobs import AggregationJob, JobFailed
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tasks.settings import DpConfig, PlanConfig, Privacy
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.edge_agent.core import secure_sum as device_side
from nightjar.edge_agent.core.privacy_ledger import noise_faults
from nightjar.edge_agent.core.secure_sum import Tools, UpdateEncoded
from nightjar.models.manifest import Manifest
from nightjar.simulation.rounds.ports import enrolled_key
from nightjar.wire import frame, topics
from nightjar.wire.limits import NONE as NO_LIMITS
from nightjar.wire.messages import (
    Assignment,
    CheckIn,
    DropoutCause,
    Receipt,
    Rejection,
    RejectionReason,
    Status,
    Verdict,
)
from nightjar.wire.parameters import weights_from_bytes
from nightjar.wire.secure_sum.low_rank import Rank, from_bytes
from nightjar.wire.secure_sum.messages import Deliveries, Disclosure, MaskedUpdate, encode
from nightjar.wire.secure_sum.order import contribution, read_sum, values_of
from nightjar.wire.secure_sum.session import terms_of_assignment
from tests.coordinator.fakes import Killed, World
from tests.coordinator.model_folder import LAYOUT, write_model
from tests.secure_sums import PRIMITIVES

NAMES = ("d0", "d1", "d2", "d3", "d4")
SUMMED = {
    "privacy": Privacy.SECURE_SUM,
    "goal": 5,
    "minimum": 4,
    "over_selection": 1.0,
    "report_deadline_s": 400.0,
    "plan": PlanConfig(evaluation_share=0.0),
}


class SummedDevice:
    """A device without a driver: it answers at once whatever it is asked, unless it is silent."""

    def __init__(self, world, name) -> None:
        self.world, self.name, self.number = world, name, int(name[1:])
        self.key = enrolled_key(self.number)
        self.tools = Tools(PRIMITIVES, self.key.sign)
        self.words = self.state = self.report = None
        self.silent = False
        self.read = 0

    def join(self) -> None:
        assignment = self.world.assignment(self.name)
        self.assignment, order = assignment, assignment.secure_sum
        self.terms = terms_of_assignment(assignment, LAYOUT, "demo")
        update = np.full(LAYOUT.size, (self.number + 1) / 100, np.float32)
        asked = asked_of(self.world, assignment.version, order)
        self.words = contribution(update, 100, order, LAYOUT, *asked, *2 * [np.random.default_rng(self.number)])
        self.state, sent = device_side.join(self.terms, bytes([self.number] * 32), self.key.public, self.tools)
        self.send(sent)

    def send(self, sent) -> None:
        for message in sent:
            if isinstance(message, MaskedUpdate):
                self.report = masked(self.assignment, encode(message))
                self.world.receive(self.name, "report", self.report)
            else:
                self.world.receive(self.name, topics.SUM_ANSWER, encode(message))

    def answer(self) -> bool:
        """Answer the next question; False if there is none."""
        asked = [message for message in self.world.transport.to(self.name) if hasattr(message, "session")]
        if self.silent or self.state is None or self.read >= len(asked):
            return False
        message = asked[self.read]
        self.read += 1
        before = self.state
        self.state, sent = device_side.step(self.state, message, self.tools)
        if isinstance(message, Deliveries) and self.state != before:
            self.state, sent = device_side.step(self.state, UpdateEncoded(self.words), self.tools)
        self.send(sent)
        return True


def asked_of(world, version, order):
    """Bases and spread that the devices of a version encode with."""
    with world.repository.transaction() as tx:
        manifest = Manifest.decode(world.artifacts.get(tx.version(version).manifest))
    return from_bytes(world.artifacts.get(manifest.bases.sha256), LAYOUT, order.rank)


def masked(assignment, payload, **changes) -> bytes:
    report = frame.Report(assignment.round, 1, frame.MASKED_UPDATE, LAYOUT.fingerprint, 0, 0, 0, 0.0, 0.0, payload)
    return frame.encode_report(msgspec.structs.replace(report, **changes))


class SummedWorld(World):
    def __init__(self, folder, limits=NO_LIMITS, **task) -> None:
        enrolled = {"enrolled": lambda name: enrolled_key(int(name[1:])).public, "limits": limits}
        super().__init__(write_model(folder), folder, **enrolled, **(SUMMED | task))
        self.devices = {name: SummedDevice(self, name) for name in NAMES}

    def begin(self, *names) -> None:
        self.listen()
        self.check_in(*NAMES)
        for name in names or NAMES:
            self.devices[name].join()

    def talk_once(self) -> None:
        for device in self.devices.values():
            device.answer()

    def talk(self) -> None:
        """Until nobody has anything to say."""
        while sum(device.answer() for device in self.devices.values()):
            pass

    @property
    def session(self):
        with self.repository.transaction() as tx:
            return tx.sums()[1].session

    def rows(self, table) -> int:
        with self.repository.transaction() as tx:
            return tx._connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()

    def mean(self, version=1):
        with self.repository.transaction() as tx:
            manifest = Manifest.decode(self.artifacts.get(tx.version(version).manifest))
        weights = weights_from_bytes(self.artifacts.get(manifest.weights.sha256), LAYOUT)
        base = weights_from_bytes(self.artifacts.get(self.manifest.weights.sha256), LAYOUT)
        return weights.astype(np.float64) - base


@pytest.fixture
def world(tmp_path):
    return SummedWorld(tmp_path)


def expected(world, *names):
    devices = [world.devices[name] for name in names]
    bits = devices[0].terms.bits
    total = sum(each.words.astype(np.uint64) for each in devices) % 2**bits
    order = devices[0].assignment.secure_sum
    return read_sum(total.astype(np.uint32), order, LAYOUT, *asked_of(world, 0, order))


def assert_is_the_mean(world, *names) -> None:
    assert np.abs(world.mean() - expected(world, *names).mean).max() < 1e-6


def test_a_round_commits_the_mean_of_a_sum_and_keeps_nothing(world):
    world.begin()
    world.talk()
    assert world.phase_of(1) is Phase.COMMITTING
    (job,) = world.worker.jobs
    again = msgspec.json.decode(msgspec.json.encode(job), type=AggregationJob)
    assert again == job, "it goes to the worker as JSON"
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    assert_is_the_mean(world, *NAMES)
    assert (world.rows("secure_sums"), world.rows("report_frames")) == (0, 0)
    assert all(world.transport.to(name, Receipt)[-1].verdict is Verdict.ACCEPTED for name in NAMES)


def test_the_next_round_sums_with_bases_that_follow_from_the_sum(world):
    world.begin()
    world.talk()
    world.work()
    with world.repository.transaction() as tx:
        first, second = (Manifest.decode(world.artifacts.get(tx.version(number).manifest)) for number in (0, 1))
        kept = world.private.state(tx.version(1).optimizer_state)
    assert first.bases != second.bases
    average = state_from_bytes(kept, "fedavg", np.zeros((1, LAYOUT.size)))
    assert np.abs(average - expected(world, *NAMES).mean / 2).max() < 1e-6, "half of it, after zeros"


def test_first_bases_are_made_once_and_again_only_for_another_rank(world, monkeypatch):
    given = (Privacy.SECURE_SUM, world.config.seed, world.artifacts)
    with world.repository.transaction() as tx:
        first = Manifest.decode(world.artifacts.get(tx.version(0).manifest))
    assert with_bases(first, *given) == first
    monkeypatch.setattr("nightjar.coordinator.learning.summed.RANKS", (Rank(rows=9, right=1, left=1),))
    assert with_bases(first, *given).bases != first.bases
    assert with_bases(first, Privacy.NONE, *given[1:]) == first


def test_the_assignment_says_how_updates_are_summed_and_asks_for_no_more(world):
    world.begin()
    assignment = world.assignment("d0")
    order = assignment.secure_sum
    assert (order.threshold, order.cohort, assignment.minimum) == (2, 5, 4)
    assert order.clip_norm == 1.0, "what one step of the plan can change"
    assert (assignment.plan.keep_share, assignment.plan.evaluation_share) == (1.0, 0.0)


@pytest.mark.parametrize("silent_from", range(5))
def test_a_device_that_falls_silent_at_any_step_is_missing_at_most_from_the_sum(world, silent_from):
    world.begin(*NAMES[: 4 if silent_from == 0 else 5])
    for step in itertools.count(1):
        world.devices["d4"].silent = step >= silent_from
        if not sum(device.answer() for device in world.devices.values()):
            break
    for _ in range(5):
        world.tick(31.0)
        world.talk()
    if world.phase_of(1) is Phase.REPORTING:
        world.tick(400.0)
        world.talk()
        for _ in range(4):
            world.tick(31.0)
            world.talk()
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    assert_is_the_mean(world, *NAMES[: 4 if silent_from <= 2 else 5])


def test_who_sends_no_keys_in_time_loses_the_seat_and_nobody_gets_it(world):
    world.begin(*NAMES[:4])
    world.tick(31.0)
    with world.repository.transaction() as tx:
        seats = tx.round(1).seats
    assert seats["d4"].cause is DropoutCause.SILENT
    world.check_in("d9")
    assert not world.transport.to("d9", Assignment)


def test_too_few_keys_abandon_the_round_and_delete_everything(world):
    world.begin(*NAMES[:3])
    world.tick(31.0)
    with world.repository.transaction() as tx:
        state = tx.round(1)
    assert state.phase is Phase.ABANDONED
    assert "3 of 5 devices sent keys" in state.reason
    told = [world.transport.to(name, Receipt)[-1] for name in NAMES]
    assert {(receipt.round, receipt.verdict) for receipt in told} == {(1, Verdict.LATE)}, "nobody works on in vain"
    assert world.rows("secure_sums") == 0


def test_too_few_confirmations_abandon_the_round_and_delete_the_masked_updates(world):
    world.begin()
    while world.phase_of(1) is Phase.REPORTING:
        for device in world.devices.values():
            device.answer()
    for device in world.devices.values():
        device.silent = True
    assert world.rows("report_frames") == 5
    world.tick(31.0)
    with world.repository.transaction() as tx:
        state = tx.round(1)
    assert state.phase is Phase.ABANDONED
    assert "secure sum" in state.reason
    assert (world.rows("secure_sums"), world.rows("report_frames")) == (0, 0)


def test_devices_are_asked_again_half_way_and_when_they_return(world):
    world.begin()
    asked = len(world.transport.to("d0"))
    world.tick(16.0)
    assert len(world.transport.to("d0")) == asked + 1
    world.tick(1.0)
    assert len(world.transport.to("d0")) == asked + 1, "once"
    world.status("d0", Status(online=True, state="training"))
    assert len(world.transport.to("d0")) == asked + 1, "it was not away"
    world.status("d0", Status(online=False))
    world.status("d0", Status(online=True, state="training"))
    assert len(world.transport.to("d0")) == asked + 2
    world.devices["d0"].answer()
    world.status("d0", Status(online=False))
    world.status("d0", Status(online=True, state="training"))
    assert len(world.transport.to("d0")) == asked + 2


def test_a_masked_update_that_is_none_is_refused_and_costs_its_sender_the_seat(world):
    world.begin()
    for device in world.devices.values():
        device.answer()
    session = world.devices["d1"].terms.session
    bad = [
        (masked(world.assignment("d0"), b"nonsense"), "secure-sum"),
        (
            masked(world.assignment("d1"), encode(MaskedUpdate(session, bytes(64), b""))),
            "secure-sum",
        ),
        (masked(world.assignment("d2"), b"", version=7), "version"),
        (masked(world.assignment("d3"), b"", codec=6), "codec"),
    ]
    for name, (data, code) in zip(NAMES, bad, strict=False):
        world.receive(name, "report", data)
        receipt = world.transport.to(name, Receipt)[-1]
        assert (receipt.verdict, receipt.code) == (Verdict.INVALID, code)


def test_a_late_report_is_late(world):
    world.begin()
    for device in world.devices.values():
        device.answer()
    world.devices["d4"].silent = True
    world.talk()
    world.tick(400.0)
    assert world.phase_of(1) is Phase.COMMITTING
    world.devices["d4"].silent = False
    world.devices["d4"].answer()
    assert world.transport.to("d4", Receipt)[-1].verdict is Verdict.LATE


def test_messages_of_strangers_and_of_other_sessions_change_nothing(world):
    world.begin()
    before = world.session
    keys = next(iter(before.keys.values()))
    world.receive("d9", topics.SUM_ANSWER, encode(keys))
    world.receive("d0", topics.SUM_ANSWER, encode(msgspec.structs.replace(keys, session=bytes(32))))
    world.receive("d0", topics.SUM_ANSWER, b"nonsense")
    assert world.session == before


@pytest.mark.parametrize("touch", range(1, 104, 9))
def test_killed_at_any_touch_the_sum_is_still_exact(tmp_path, touch):
    world = SummedWorld(tmp_path)
    world.begin()
    count = itertools.count()

    def die() -> None:
        if next(count) == touch:
            raise Killed

    world.touch_with(die)
    for _ in range(12):
        try:
            world.talk()
            break
        except Killed:
            world.touch_with(lambda: None)
            world.start()
            world.listen()
            for device in world.devices.values():  # a broker gives again what was not acknowledged
                if device.report is not None:
                    world.receive(device.name, "report", device.report)
    assert next(count) > touch, "the process was killed"
    world.touch_with(lambda: None)
    for seconds in (16.0, 16.0, 31.0, 31.0, 31.0):
        world.tick(seconds)
        world.talk()
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    assert_is_the_mean(world, *_included(world))


def _included(world):
    with world.repository.transaction() as tx:
        return {report.device for report in tx.reports(1)}


def test_the_clip_norm_follows_from_the_sum(world):
    world.begin()
    world.talk()
    world.work()
    with world.repository.transaction() as tx:
        assert tx.version(1).clip_norm == pytest.approx(1.0 * np.exp(-0.2 * (1.0 - 0.5)))


def test_a_coordinator_that_was_away_waits_anew(world):
    world.begin()
    world.talk_once()
    world.clock.time_s += 300.0
    world.start()
    world.listen()
    world.talk()
    assert world.phase_of(1) is Phase.COMMITTING


def test_a_clock_that_is_set_back_does_not_prolong_a_phase(world):
    world.tick(30.0)
    world.begin(*NAMES[:4])
    world.tick(-25.0)
    world.tick(31.0)
    world.talk()
    assert world.phase_of(1) is Phase.COMMITTING


def test_each_session_has_a_higher_number_than_all_before(world):
    world.begin()
    first = world.assignment("d0").secure_sum.number
    world.talk()
    world.work()
    world.check_in(*NAMES)
    assert world.assignment("d0").secure_sum.number > first


NOISED = {
    "privacy": Privacy.SECURE_DP,
    "rounds": 4,
    "minimum_separation": 2,
    "dp": DpConfig(epsilon=5.0, clip_norm=0.5),
}


def test_with_differential_privacy_devices_are_told_to_add_the_noise_that_keeps_the_promise(tmp_path):
    world = SummedWorld(tmp_path, **NOISED)
    world.begin()
    assignment = world.assignment("d0")
    order, terms = assignment.secure_sum, assignment.privacy
    assert (order.clip_norm, terms.epsilon, terms.step) == (0.5, 5.0, 0)
    assert noise_faults(assignment, values_of(order, LAYOUT)) == []
    less = msgspec.structs.replace(order, noise_variance=int(0.98 * order.noise_variance))
    assert noise_faults(msgspec.structs.replace(assignment, secure_sum=less), values_of(order, LAYOUT)) != []


def test_a_round_with_noise_commits_the_mean_counts_itself_and_keeps_the_clip_norm(tmp_path):
    world = SummedWorld(tmp_path, **NOISED)
    world.begin()
    world.talk()
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    assert_is_the_mean(world, *NAMES)
    with world.repository.transaction() as tx:
        record, version = tx.task("keyboard"), tx.version(1)
    assert (record.state.noised, record.state.noise.key) == ((1,), "")
    assert 0 < record.ledger().spent < record.ledger().epsilon <= 5.0
    assert version.clip_norm == 0.5
    world.check_in("d0")
    assert world.transport.to("d0", Rejection)[-1].reason is RejectionReason.TOOK_PART_LATELY


def task_of(world):
    with world.repository.transaction() as tx:
        return tx.task("keyboard")


@pytest.fixture(params=["memory", "disk"])
def noised_world(tmp_path, request):
    opened = []

    def open_database():
        opened.append(Database(f"sqlite:///{tmp_path / 'coordinator.sqlite'}"))
        return opened[-1]

    yield SummedWorld(tmp_path, open_database=open_database if request.param == "disk" else None, **NOISED)
    for database in opened:
        database.close()


def fail(world, number) -> None:
    world.worker.jobs.clear()
    world.driver.handle(JobEnded(JobFailed("no room on the disk", number)))


def test_a_round_has_spent_its_privacy_once_its_sum_can_be_opened_though_averaging_fails(noised_world):
    noised_world.begin()
    noised_world.talk()
    assert noised_world.phase_of(1) is Phase.COMMITTING
    spent = task_of(noised_world).ledger().spent
    assert spent > 0
    noised_world.start()
    fail(noised_world, 1)
    assert noised_world.phase_of(1) is Phase.ABANDONED
    noised_world.start()
    assert (task_of(noised_world).state.noised, task_of(noised_world).ledger().spent) == ((1,), spent)
    noised_world.check_in("d0")
    assert noised_world.transport.to("d0", Rejection)[-1].reason is RejectionReason.TOOK_PART_LATELY


def test_a_round_that_is_averaged_again_after_a_crash_is_counted_once(noised_world):
    noised_world.begin()
    noised_world.talk()
    noised_world.start()
    noised_world.work()
    assert noised_world.phase_of(1) is Phase.COMMITTED
    assert task_of(noised_world).state.noised == (1,)


def test_a_round_whose_sum_cannot_be_opened_spends_nothing(noised_world):
    noised_world.begin()
    while noised_world.phase_of(1) is Phase.REPORTING:
        noised_world.talk_once()
    for device in noised_world.devices.values():
        device.silent = True
    noised_world.tick(31.0)
    assert noised_world.phase_of(1) is Phase.ABANDONED
    assert task_of(noised_world).state.noised == ()


def test_a_task_whose_rounds_all_spent_privacy_ends_though_none_became_a_version(tmp_path):
    world = SummedWorld(tmp_path, **NOISED | {"rounds": 1})
    world.begin()
    world.talk()
    fail(world, 1)
    ended = task_of(world).state
    assert (ended.status, ended.committed) == (TaskStatus.FINISHED, 0)
    assert ended.reason == "its privacy is spent: 1 of 1 rounds"
    world.start()
    assert task_of(world).state == ended


def test_an_agent_of_before_is_told_in_words_that_it_cannot_take_part_in_a_sum(world):
    world.listen()
    world.say("d0", CheckIn(agent_version="0.1.0", runtime="none", examples=100, codecs=("sampled-4",)))
    told = world.transport.to("d0", Rejection)[-1]
    assert told.reason is RejectionReason.OUTDATED_AGENT
    assert told.detail == "this agent is too old for this coordinator's secure sums"


def test_a_device_that_gives_back_wrong_shares_is_named_and_counted_against_and_the_sum_goes_on(world, capsys):
    world.begin()
    liar = world.devices["d1"]
    send = liar.send

    def lie(sent) -> None:
        send([replace(m, shares=b"\x01" * len(m.shares)) if isinstance(m, Disclosure) else m for m in sent])

    liar.send = lie
    world.talk()
    with world.repository.transaction() as tx:
        refusals = (tx.lease("d1").refusals, tx.lease("d2").refusals)
    said = capsys.readouterr().out
    named = "sum_shares_wrong" in said and "device=d1" in said
    assert (world.phase_of(1), refusals, named) == (Phase.COMMITTING, (1, 0), True)
