"""Whatever may have been learned under a promise counts against it, by whichever way it came.

The rounds of a private task are driven through whatever a fleet and an operator can do. A record is kept beside the
coordinator of what could have been learned: each mean that a worker made, and each sum that could be opened.
"""

import contextlib
import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.engine.task_creation import take_stock
from nightjar.coordinator.records.inbox import JobEnded, Operated
from nightjar.coordinator.records.jobs import AggregationDone, JobFailed
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage.restored_tasks import end_restored
from nightjar.coordinator.tasks.operations import RollBack
from nightjar.coordinator.tasks.settings import DpConfig, PlanConfig, Privacy
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire import frame
from nightjar.wire.errors import NightjarError
from tests.coordinator.engine.test_secure_sums import SummedWorld, masked
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model

PRIVATE = {
    "rounds": 6,
    "minimum_separation": 2,
    "dp": DpConfig(epsilon=5.0, clip_norm=0.5),
    "plan": PlanConfig(evaluation_share=0.0),
}
COUNTS = frame.LocalEvaluation(9, 3, 4, 5, 6, 2.0, 1.0)
KEYBOARD = frame.KeyboardEvaluation(90, 30, 0, 20)
COHORTS = ("ab", "cd", "ef")
WAYS = (
    "plain",
    "counts",
    "repeated",
    "refused",
    "too few",
    "late",
    "killed",
    "twice",
    "failed",
    "taken back",
    "restored",
)


class Fleet:
    """A coordinator, and what could have been learned of whom.

    Attributes:
        learned: for each round whose mean was made or whose sum could be opened, its devices.
        noises: what each mean was noised with, by round.
        figures: how many figures of devices came out beside the means.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.learned: dict[int, frozenset[str]] = {}
        self.noises: dict[int, bytes] = {}
        self.figures = 0
        self.turn = 0
        self.restored = False

    def task(self):
        with self.world.repository.transaction() as tx:
            return tx.task("keyboard")

    def run(self, way: str) -> None:
        """A round, if one can be held now, and what happens to it."""
        if way == "restored":
            self.restore()
            return
        world, names = self.world, self.names()
        number = self.report(way, names)
        if way == "killed":
            world.start()
        if way == "twice":  # the worker's process had just made the mean when all was killed
            self.work(end=False)
            world.start()
        if way == "failed" and world.worker.jobs:
            self.note_jobs()
            world.worker.jobs.clear()
            world.driver.handle(JobEnded(JobFailed("no room on the disk", number)))
        self.work()
        if way == "taken back":
            world.driver.handle(Operated(RollBack(reason="no", to=0), "anna", lambda _answer: None))
        world.tick(3600.0)
        world.listen()

    def names(self) -> str:
        self.turn += 1
        return COHORTS[self.turn % len(COHORTS)]

    def report(self, way: str, names: str) -> int:
        """Let the devices report; returns the number of the last round that was opened."""
        world = self.world
        world.check_in(*names)
        assigned = [name for name in names if self.working(name)]
        reports = {name: self.made(way, name, first=name == names[0]) for name in assigned}
        for name in assigned[: 1 if way in {"too few", "late"} else None]:
            for _ in range(2 if way == "repeated" else 1):
                world.receive(name, "report", reports[name])
        if way in {"too few", "late"}:
            world.tick(3600.0)
        for name in assigned[1:] if way == "late" else ():
            world.receive(name, "report", reports[name])
        return max(world.tables.rounds, default=0)

    def made(self, way: str, name: str, *, first: bool) -> bytes:
        update = np.full(LAYOUT.size, 0.01, np.float32)
        sent = report_frame(self.world.assignment(name), update, LAYOUT, 5)
        if way == "counts":
            return changed(sent, evaluation=COUNTS, keyboard=KEYBOARD)
        if way == "refused" and first:
            return changed(sent, payload=(update * np.nan).tobytes())
        return sent

    def working(self, name: str) -> bool:
        return any(name in state.seats for state in self.open_rounds() if state.phase is Phase.REPORTING)

    def open_rounds(self):
        return [state for state in self.world.tables.rounds.values() if state.phase not in OVER]

    def note_jobs(self) -> None:
        for job in self.world.worker.jobs:
            self.learned[job.round] = frozenset(each.device for each in job.reports)

    def work(self, *, end: bool = True) -> None:
        for job in list(self.world.worker.jobs):
            try:
                done = do_job(job, self.world.artifacts, self.world.private, lambda *_: self.world.measured)
            except NightjarError as error:  # after a restore; the worker catches it
                done = JobFailed(str(error), job.round)
            if isinstance(done, AggregationDone):
                self.learned[job.round] = frozenset(each.device for each in job.reports)
                self.figures += done.federated.devices + sum(done.federated.saved.values())
                if job.noise is not None and not job.noise.honest:
                    drawn = job.noise.noise(job.step, 8).tobytes()
                    assert self.noises.setdefault(job.round, drawn) == drawn
            if end:
                self.world.worker.jobs.remove(job)
                self.world.driver.handle(JobEnded(done))

    def restore(self) -> None:
        """What ``restore`` does to a private task; the process ended before."""
        self.restored = True
        with self.world.repository.transaction() as tx:
            record = tx.task("keyboard")
            end_restored(tx, record, tx.last_round_number(), 0.0)
            take_stock(tx, self.world.config, 0.0)
        self.world.start()

    def broken(self) -> list[str]:
        """Which invariants do not hold."""
        state, ledger = self.task().state, self.task().ledger()
        over = {number for number, each in self.world.tables.rounds.items() if each.phase in OVER}
        spent = sorted(self.learned)
        holds = {
            "learned, and not counted": set(self.learned) & over <= set(state.noised) or self.restored,
            "one noise served two means": len(set(self.noises.values())) == len(self.noises),
            "a device took part too soon": not any(
                self.learned[one] & self.learned[other] for one, other in itertools.pairwise(spent)
            ),
            "counts without noise came out": self.figures == 0,
        }
        if self.restored:
            holds["a restored task goes on"] = ledger.spent >= ledger.epsilon and state.status is TaskStatus.FINISHED
        else:
            once = len(state.noised) == len(set(state.noised)) <= PRIVATE["rounds"]
            holds["counted twice"] = once and (ledger.spent > 0) is bool(state.noised)
        return [rule for rule, kept in holds.items() if not kept]


OVER = {Phase.COMMITTED, Phase.ABANDONED}


def changed(sent: bytes, **changes) -> bytes:
    report = frame.decode(sent)
    assert isinstance(report, frame.Report)
    return frame.encode_report(replace(report, **changes))


class SummedFleet(Fleet):
    """The same with masked reports, of five devices."""

    world: SummedWorld

    def report(self, way: str, names: str) -> int:
        world, devices = self.world, list(self.world.devices.values())
        for device in devices:
            device.silent, device.state, device.read = False, None, len(questions(device))
        for device in devices[3:] if way == "too few" else ():
            device.silent = True
        world.listen()
        world.check_in(*world.devices)
        for device in devices:
            if self.working(device.name) and not device.silent:
                device.join()
        last = devices[-1]
        if way in {"late", "refused"} and last.state is not None:
            world.talk_once()  # all have shared
            last.silent = True
            if way == "refused":
                world.receive(last.name, "report", masked(last.assignment, b"no masked update"))
        world.talk()
        for device in devices if way == "repeated" else ():
            if device.report is not None:
                world.receive(device.name, "report", device.report)
        for _ in range(5 if any(device.silent for device in devices) else 0):  # one phase after the other
            world.tick(101.0)
            world.talk()
        last.silent = False
        world.talk()
        self.note_jobs()
        return max(world.tables.rounds, default=0)


def questions(device) -> list:
    return [message for message in device.world.transport.to(device.name) if hasattr(message, "session")]


@contextlib.contextmanager
def fleet(privacy: Privacy):
    with tempfile.TemporaryDirectory() as folder:
        if privacy is Privacy.DP:
            yield Fleet(World(write_model(Path(folder)), Path(folder), **PRIVATE, privacy=privacy))
        else:
            yield SummedFleet(SummedWorld(Path(folder), **PRIVATE | {"privacy": privacy}))


@pytest.mark.parametrize("privacy", [Privacy.DP, Privacy.SECURE_DP], ids=lambda each: each.value)
@settings(max_examples=25, deadline=None)
@given(ways=st.lists(st.sampled_from(WAYS), min_size=1, max_size=6))
def test_whatever_could_be_learned_counts_by_whichever_way_it_came(privacy, ways):
    with fleet(privacy) as found:
        for way in ways:
            found.run(way)
            assert found.broken() == []


@pytest.mark.parametrize("privacy", [Privacy.DP, Privacy.SECURE_DP], ids=lambda each: each.value)
@pytest.mark.parametrize("way", WAYS)
def test_a_way_counts_where_something_could_be_learned(privacy, way):
    with fleet(privacy) as found:
        found.run(way)
        learns = way not in ({"too few", "restored"} if privacy.summed else {"too few", "late", "refused", "restored"})
        counted = bool(found.task().state.noised)
        assert (found.broken(), bool(found.learned), counted) == ([], learns, learns or way == "restored")
