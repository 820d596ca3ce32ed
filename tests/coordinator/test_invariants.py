"""Whatever devices, the network, the worker and the power do to the whole coordinator, these hold.

Hypothesis draws what happens; an observer that only sees receipts and aggregations keeps the books.
"""

import statistics
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.coordinator.records.inbox import BrokerDisconnected, JobEnded, Operated
from nightjar.coordinator.records.jobs import AggregationJob, JobFailed
from nightjar.coordinator.rounds.admission import is_in_round
from nightjar.coordinator.rounds.round import TERMINAL, Phase
from nightjar.coordinator.tasks.operations import CreateTask
from nightjar.models.manifest import Manifest
from nightjar.wire.messages import Assignment, Dropout, DropoutCause, Receipt, Status, Verdict
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model

pytestmark = pytest.mark.slow

# Each takes 0.1 to 0.4 s: the property that the service stands on is worth the time where nobody waits for it.
FEW, MANY = 25, 100
"""Examples for each: few in every run, many in make test-long."""
DEVICES = tuple("abcdef")
device = st.sampled_from(DEVICES)
HAPPENINGS = st.one_of(
    st.tuples(st.just("check in"), device),
    st.tuples(st.just("check in all")),
    st.tuples(st.just("report"), device),
    st.tuples(st.just("report all")),
    st.tuples(st.just("forge"), device),
    st.tuples(st.just("spoil"), device),
    st.tuples(st.just("drop out"), device),
    st.tuples(st.just("vanish"), device),
    st.tuples(st.just("pass"), st.sampled_from([0.3, 3.0, 15.0, 61.0, 120.0])),
    st.tuples(st.just("work")),
    st.tuples(st.just("work")),
    st.tuples(st.just("fail")),
    st.tuples(st.just("lose the broker")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("set the clock back")),
)


class Observed:
    """A coordinator, the devices around it, and the books."""

    def __init__(self, folder: Path, tasks: int = 1, **task) -> None:
        self.world = World(write_model(folder), folder, **task)
        self.minimum = self.world.config.task.minimum
        self.tasks = tasks
        for number in range(1, tasks):
            settings = msgspec.structs.replace(self.world.config.task.settings(), name=f"task-{number}")
            self.world.driver.handle(Operated(CreateTask(settings), "anna"))
        self.averaged: dict[int, list[str]] = {}
        self.bytes: dict[tuple[int, str], bytes] = {}

    def happen(self, what: str, *arguments) -> None:
        world = self.world
        match what, *arguments:
            case ("check in all",):
                world.check_in(*DEVICES)
            case ("report all",):
                for name in DEVICES:
                    self._report(name)
            case "check in", name:
                world.check_in(name)
            case "report", name:
                self._report(name)
            case "forge", name:
                self._report(name, number=len(world.transport.sent) % 5, attempt=3)
            case "spoil", name:
                world.receive(name, "report", b"\x00" * 50)
            case "drop out", name:
                asked = world.transport.to(name, Assignment)
                if asked:
                    cause = DropoutCause.IN_USE
                    world.say(name, Dropout(round=asked[-1].round, attempt=asked[-1].attempt, cause=cause))
            case "vanish", name:
                world.status(name, Status(online=False))
            case "pass", seconds:
                world.tick(seconds)
            case "set the clock back":
                world.tick(-500.0)
            case ("work",):
                for job in world.worker.jobs:
                    self._note(job)
                world.work()
            case ("fail",):
                for job in list(world.worker.jobs):
                    world.worker.jobs.remove(job)
                    world.driver.handle(JobEnded(JobFailed("no memory", round=job.round)))
            case ("lose the broker",):
                world.driver.handle(BrokerDisconnected())
            case ("kill",):
                world.start()

    def _report(self, name: str, **forged) -> None:
        asked = self.world.transport.to(name, Assignment)
        if asked or forged:
            fields = {field: getattr(asked[-1], field) for field in asked[-1].__struct_fields__} if asked else {}
            if not fields:
                return
            asked_for = Assignment(**(fields | {"round" if k == "number" else k: v for k, v in forged.items()}))
            value = 0.001 * (1 + DEVICES.index(name))
            delta = np.full(LAYOUT.size, value, np.float32)
            self.world.receive(name, "report", report_frame(asked_for, delta, LAYOUT, num_examples=2))

    def _note(self, job) -> None:
        if isinstance(job, AggregationJob):
            self.averaged[job.round] = [one.device for one in job.reports]

    def check(self) -> None:
        tables = self.world.tables
        stored = Counter((round_number, name) for round_number, name, _ in tables.reports)
        assert all(count == 1 for count in stored.values()), "one device twice in a round"
        accepted = {
            (message.round, topic.split("/")[-2])
            for topic, message, _ in self.world.transport.sent
            if isinstance(message, Receipt) and message.verdict in {Verdict.ACCEPTED, Verdict.DUPLICATE}
        }
        assert accepted <= set(stored), "an accepted report is not stored"
        selected = {
            (message.round, topic.split("/")[-2], message.attempt)
            for topic, message, _ in self.world.transport.sent
            if isinstance(message, Assignment)
        }
        assert set(tables.reports) <= selected, "a report was stored that nobody was asked for"
        still_open = [state for state in tables.rounds.values() if state.phase not in TERMINAL]
        assert len({state.task for state in still_open}) == len(still_open) == self.tasks, "always one round of each"
        at_work = Counter(device for state in still_open for device in DEVICES if is_in_round(state, device))
        assert all(count == 1 for count in at_work.values()), "a device waits or works for one task at a time"
        for number, state in tables.rounds.items():
            in_round = sorted(name for round_number, name in stored if round_number == number)
            if state.phase is Phase.COMMITTED:
                assert len(in_round) >= self.minimum
                assert self.averaged[number] == in_round, "the mean is of the accepted reports, each once"
            if state.phase is Phase.ABANDONED:
                assert state.reason
                assert state.cause is not None
        committed = [state for state in tables.rounds.values() if state.phase is Phase.COMMITTED]
        made = range(self.tasks, self.tasks + len(committed))  # each task begins with a version
        assert sorted(state.version for state in committed) == list(made)
        assert len(tables.versions) == self.tasks + len(committed)
        for number, record in tables.versions.items():
            assert record.round is None or tables.rounds[record.round].task == record.task, number

    def check_weights(self) -> None:
        """Each version is the one before of its task plus the clipped mean of the devices that its round counted."""
        tables = self.world.tables
        expected: dict[str, np.ndarray] = {}
        for version, record in sorted(tables.versions.items()):
            if record.round is None:
                expected[record.task] = self._weights(version)
                continue
            values = [0.001 * (1 + DEVICES.index(name)) for name in self.averaged[record.round]]
            clip_norm = tables.versions[record.lineage.parent].clip_norm
            most = statistics.median_low(values) if clip_norm is None else clip_norm / LAYOUT.size**0.5
            expected[record.task] = expected[record.task] + np.minimum(values, most).mean()
            np.testing.assert_allclose(self._weights(version), expected[record.task], atol=1e-5)

    def _weights(self, version: int) -> np.ndarray:
        manifest = Manifest.decode(self.world.artifacts.get(self.world.tables.versions[version].manifest))
        return weights_from_bytes(self.world.artifacts.get(manifest.weights.sha256), LAYOUT)


GOALS = pytest.mark.parametrize(("goal", "minimum", "tasks"), [(2, 2, 1), (3, 1, 1), (4, 2, 1), (2, 1, 2), (1, 1, 3)])
STORIES = given(st.lists(HAPPENINGS, min_size=10, max_size=60))
STARTS = given(st.lists(HAPPENINGS, max_size=25))


def check_no_report_is_lost_or_counted_twice(goal, minimum, tasks, story):
    with tempfile.TemporaryDirectory() as folder:
        observed = Observed(Path(folder), tasks, goal=goal, minimum=minimum, over_selection=1.3)
        ended = {}
        for happening in story:
            observed.happen(*happening)
            observed.check()
            for number, state in ended.items():
                assert observed.world.tables.rounds[number] == state, "terminal stays terminal"
            rounds = observed.world.tables.rounds.items()
            ended = {number: state for number, state in rounds if state.phase in TERMINAL}
        observed.check_weights()


@GOALS
@STORIES
@settings(deadline=None, max_examples=FEW)
def test_no_report_is_lost_or_counted_twice_whatever_happens(goal, minimum, tasks, story):
    check_no_report_is_lost_or_counted_twice(goal, minimum, tasks, story)


@pytest.mark.verify
@GOALS
@STORIES
@settings(deadline=None, max_examples=MANY)
def test_no_report_is_lost_or_counted_twice_in_many_more_stories(goal, minimum, tasks, story):
    check_no_report_is_lost_or_counted_twice(goal, minimum, tasks, story)


def check_nothing_waits_for_ever(story):
    """However things stand, time and devices that come back end the round, and the next one commits."""
    with tempfile.TemporaryDirectory() as folder:
        observed = Observed(Path(folder), goal=2, minimum=2)
        for happening in story:
            observed.happen(*happening)
        world = observed.world
        stuck = max(world.tables.rounds)
        world.start()
        world.listen()
        for _ in range(4):
            world.tick(7300.0)
            world.worker.jobs.clear()  # a worker that says nothing
        assert world.phase_of(stuck) in TERMINAL
        world.check_in("a", "b")
        for name in "ab":
            observed.happen("report", name)
        observed.happen("work")
        assert Phase.COMMITTED in {state.phase for number, state in world.tables.rounds.items() if number >= stuck}


@STARTS
@settings(deadline=None, max_examples=FEW)
def test_nothing_waits_for_ever(story):
    check_nothing_waits_for_ever(story)


@pytest.mark.verify
@STARTS
@settings(deadline=None, max_examples=MANY)
def test_nothing_waits_for_ever_in_many_more_stories(story):
    check_nothing_waits_for_ever(story)
