"""One simulation from its settings to its result: connects the parts and runs the virtual clock."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.engine.aggregation import with_bases
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.rounds.eligibility import Variant
from nightjar.coordinator.tasks.operations import CreateTask, RollBack
from nightjar.coordinator.tasks.settings import CodecConfig, Mode, PlanConfig, Privacy, TaskSettings
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.simulation.rounds.availability import Availability, GeneratedAvailability, TracedAvailability
from nightjar.simulation.rounds.broker import Broker
from nightjar.simulation.rounds.coordinator import CoordinatorHost
from nightjar.simulation.rounds.faults import Danger, Dice, SimulatedFault
from nightjar.simulation.rounds.logs import Errors, errors_counted
from nightjar.simulation.rounds.model import STEPS, Shelf, first_manifest
from nightjar.simulation.rounds.observer import Observer
from nightjar.simulation.rounds.phone import Phone, Surroundings
from nightjar.simulation.rounds.storage import MemoryBlobs
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.simulation.warm_start import seeded
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.limits import NONE as NO_LIMITS
from nightjar.wire.secure_sum.terms import least_minimum

POPULATION = Population("simulation")
LIMIT_S = 60 * 86_400.0
"""Virtual time after which a simulation ends even if rounds are missing."""
GOAL_SHARE = 0.025
"""Goal of a round as a share of the phones: a quarter of the 9 % that are free on average."""
MOST_GOAL = 200
"""Hard et al. 2018 and later Gboard papers average a few hundred phones per round; more help little."""
SUMMED_GOAL = 8
"""Smallest goal with secure sums: fewer devices could not spare two."""
NOISED_ROUNDS = 1000
"""More than are simulated: a task with differential privacy must have an end."""
SELECTION_DEADLINE_S = 600.0
REPORT_DEADLINE_S = 600.0
"""A session on a phone ends after 585 s."""
HELD_OUT_SHARE = 0.5
"""With canaries: phones have few messages, and an evaluation needs fifty words."""
SAMPLE_EVERY_S = 60.0
SETTLING_S = 3600.0
"""Time after the last fault within which every report must be answered: a disk full for a quarter of an hour, a round,
and several of the longest back-off waits (five minutes)."""
CODECS = ("dense-f16", "dense-f32", "topk-8", "topk-4")
"""The first is the default: for so few parameters, entropy coding would take most of the running time."""

OTHER_TASKS = (
    ("second", Variant(), 0.2),
    ("variant-a", Variant(experiment="rates", share=0.5), 0.1),
    ("variant-b", Variant(experiment="rates", share=0.5), 0.4),
)
"""Tasks after the first: name, variant, learning rate. One is open to all devices, two variants divide them."""
ROLLBACK_S = 1500.0
"""With canaries, an operator rolls a version back so often: in any phase of a round."""
ASKED_AGAIN_S = 60.0
"""Time after which the operator repeats a request that failed because the coordinator was down."""

Follow = Callable[[Sequence[int]], Iterable[int]]
"""Iterates over the numbers; :func:`nightjar.simulation.progress.progress` also shows the progress."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the command line; see ``python -m nightjar.simulation rounds --help``."""

    devices: int
    rounds: int  # to end, committed or abandoned, over all tasks
    seed: int
    faults: frozenset[Danger] = frozenset()
    severity: float = 1.0
    availability: Path | None = None  # CSV file of recorded windows; None for generated ones
    codec: str = CODECS[0]
    steered: bool = True
    tasks: int = 1
    privacy: Privacy = Privacy.NONE
    mode: Mode = Mode.SYNCHRONOUS
    concurrency: int | None = None  # None for that of a synchronous round
    canaries: float = 0.0  # 0 for no trials; with trials, some versions are bad


@dataclass(frozen=True, slots=True)
class FleetState:
    """A sample of the fleet."""

    now_s: float
    free: int  # phones that are free
    messages: int  # to and from the coordinator since the last sample


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a simulation."""

    settings: Settings
    observer: Observer
    thrown: Counter[str]  # faults by name and place
    lost_messages: Counter[str]  # by cause
    errors: Errors
    messages: int  # to and from the coordinator
    peak_messages_per_s: int
    unanswered: list[DeviceId]  # phones that wait for a receipt long after the last fault; empty without settle
    samples: list[FleetState]
    troubles: list[tuple[float, SimulatedFault]]  # (virtual time, fault) of the coordinator and the broker
    virtual_s: float
    wall_s: float
    counters: dict[str, int]  # the coordinator's own


def task_for(devices: int, codec: str, tasks: int = 1, privacy: Privacy = Privacy.NONE) -> TaskConfig:
    """The first task for a fleet of this size; its goal is divided by the number of tasks."""
    goal = min(MOST_GOAL, max(2, round(GOAL_SHARE * devices / tasks)))
    task = TaskConfig(
        model=Path("not-a-folder"),
        goal=goal,
        minimum=max(2, goal // 2),
        selection_deadline_s=SELECTION_DEADLINE_S,
        report_deadline_s=REPORT_DEADLINE_S,
        codec=CodecConfig(name=codec, density=0.1),
        plan=PlanConfig(learning_rate=0.2, clip_norm=100.0, local_epochs=STEPS, max_steps=STEPS),
    )
    if privacy is Privacy.NONE:
        return task
    task = replace(task, privacy=privacy, goal=max(SUMMED_GOAL, goal), plan=replace(task.plan, evaluation_share=0.0))
    task = replace(task, minimum=least_minimum(task.rules().cohort), codec=CodecConfig())
    return replace(task, rounds=NOISED_ROUNDS) if privacy.noised else task


def other_tasks(first: TaskConfig, tasks: int) -> list[TaskSettings]:
    """Settings of the tasks that the operator adds to the first task."""
    return [
        replace(first.settings(), name=name, variant=variant, plan=replace(first.plan, learning_rate=learning_rate))
        for name, variant, learning_rate in OTHER_TASKS[: tasks - 1]
    ]


class World:
    """A fleet, a broker and a coordinator; the folder has the only real files, which sessions read by their paths."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        seed = settings.seed
        self.settings = settings
        self.timeline = Timeline()
        self.dice = Dice(settings.faults, settings.severity, seeded(seed, "faults"))
        self.artifacts = MemoryBlobs()
        task = task_for(settings.devices, settings.codec, settings.tasks, settings.privacy)
        task = replace(task, mode=settings.mode, concurrency=settings.concurrency)
        if settings.canaries:
            task = replace(task, plan=replace(task.plan, evaluation_share=HELD_OUT_SHARE))
        rollout = TrialPolicy(share=settings.canaries, devices=task.minimum)
        manifest = with_bases(first_manifest(self.artifacts), task.privacy, seed, self.artifacts)
        self.artifacts.put(manifest.encode())
        config = CoordinatorConfig(task=task, population=POPULATION, seed=seed, limits=NO_LIMITS, rollout=rollout)
        self._others = other_tasks(task, settings.tasks)
        self.observer = Observer(
            task,
            self.artifacts,
            lambda: self.coordinator.repository.view,
            lambda: self.timeline.now_s,
            {each.name: each.variant.experiment for each in self._others},
        )
        self.broker = Broker(self.timeline, self.dice, POPULATION, self.observer.published)
        self.coordinator = CoordinatorHost(
            config,
            self.timeline,
            self.broker,
            self.dice,
            self.artifacts,
            manifest,
            seeded(seed, "coordinator"),
            self.observer,
            steered=settings.steered,
        )
        self.free = 0
        self.samples: list[FleetState] = []
        self._messages = 0
        around = Surroundings(
            timeline=self.timeline,
            broker=self.broker,
            availability=_availability(settings),
            dice=self.dice,
            shelf=Shelf(self.artifacts, folder),
            coordinator=self.coordinator,
            observer=self.observer,
            free_changed=self._free_changed,
            generator=seeded(seed, "phones"),
            population=POPULATION,
            seed=seed,
            evaluates=settings.canaries > 0,
        )
        self.phones = [Phone(number, around) for number in range(settings.devices)]

    def run(self, follow: Follow = iter) -> None:
        """Run until enough rounds have ended."""
        self.coordinator.start()
        self._ask_for_tasks()
        if self.settings.canaries:
            self.timeline.after(ROLLBACK_S, self._roll_back)
        self._sample()
        for wanted in follow(range(1, self.settings.rounds + 1)):
            self.timeline.run(partial(self._ended, wanted), LIMIT_S)
        self.observer.finish()

    def settle(self) -> None:
        """Continue without faults until every pending report should have been answered."""
        self.dice.rest()
        self.timeline.run(lambda: False, self.timeline.now_s + SETTLING_S)
        self.observer.finish()

    def unanswered(self) -> list[DeviceId]:
        """Phones that wait for a receipt of an ended round."""
        # A seat may outlive its buffered round.
        longest_s = REPORT_DEADLINE_S if self.settings.mode is Mode.BUFFERED else 0.0
        ended_s = self.observer.ended_s
        over = {number for number in ended_s if ended_s[number] + longest_s <= self.timeline.now_s}
        return [phone.device for phone in self.phones if phone.outbox_round in over]

    def _ended(self, rounds: int) -> bool:
        return len(self.observer.rounds) >= rounds

    def _ask_for_tasks(self) -> None:
        """Request each task that does not exist yet, until all exist."""
        wanted = [each for each in self._others if self.coordinator.repository.view.task(each.name) is None]
        for settings in wanted:
            self.coordinator.handle(Operated(CreateTask(settings), "operator"))
        if wanted:
            self.timeline.after(ASKED_AGAIN_S, self._ask_for_tasks)

    def _roll_back(self) -> None:
        """Ask for the rollback of the canary, or else of the current version."""
        self.coordinator.handle(Operated(RollBack("an operator tries it"), "operator"))
        self.timeline.after(ROLLBACK_S, self._roll_back)

    def _free_changed(self, by: int) -> None:
        self.free += by

    def _sample(self) -> None:
        messages = self.broker.messages
        self.samples.append(FleetState(self.timeline.now_s, self.free, messages - self._messages))
        self._messages = messages
        self.timeline.after(SAMPLE_EVERY_S, self._sample)


def simulate(settings: Settings, follow: Follow = iter, *, settle: bool = False) -> SimulationResult:
    """Run a simulation; with ``settle``, it continues without faults for an hour afterwards.

    Raises:
        ConfigError: the availability file cannot be read.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, errors_counted() as errors:
        world = World(settings, Path(folder))
        world.run(follow)
        if settle:
            world.settle()
    return SimulationResult(
        settings=settings,
        observer=world.observer,
        thrown=world.dice.thrown,
        lost_messages=world.broker.lost,
        errors=errors,
        messages=world.broker.messages,
        peak_messages_per_s=world.broker.peak_per_s,
        unanswered=world.unanswered() if settle else [],
        samples=world.samples,
        troubles=world.coordinator.troubles,
        virtual_s=world.timeline.now_s,
        wall_s=time.monotonic() - started,
        counters=dict(world.coordinator.repository.view.counters()),
    )


def _availability(settings: Settings) -> Availability:
    if settings.availability is None:
        return GeneratedAvailability(settings.seed)
    generator = seeded(settings.seed, "availability")
    return TracedAvailability(settings.availability, settings.devices, generator)
