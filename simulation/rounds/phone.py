"""A simulated phone: the real agent driver, which is asleep most of the time.

A phone has a driver only while something can happen to it: while its window is open, a report is pending, or a message
arrives. A sleeping phone consists of its journal, its connection and its next window, so a hundred thousand phones fit
into memory. Waking is not a visible restart: the connection stays open and nothing is sent.

The agent polls its conditions once a second. Polls that cannot find a change are skipped here; the others happen at the
same second as in the real agent.
"""

from __future__ import annotations

import contextlib
import math
import queue
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nightjar.edge_agent.core import lifecycle
from nightjar.edge_agent.core.eligibility import Readings
from nightjar.edge_agent.core.lifecycle import Ineligible, Training
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.inbox import Arrived, Item, Job, LinkDown, LinkUp, WorkDone
from nightjar.edge_agent.link.uplink import AgentIdentity
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import ExampleStore, Pace, Ports, SessionDependencies
from nightjar.edge_agent.session.session import in_this_process
from nightjar.edge_agent.session.task import Produced, SessionTask
from nightjar.edge_agent.shell.http import Patience
from nightjar.edge_agent.upkeep.keyboard import offered
from nightjar.simulation.rounds.availability import Availability
from nightjar.simulation.rounds.broker import Broker
from nightjar.simulation.rounds.faults import PHONE_FAULTS, Dice, Fuse, PowerCut, SimulatedFault
from nightjar.simulation.rounds.journal import MemoryJournal, SimulatedJournal
from nightjar.simulation.rounds.model import LAYOUT, STEPS, LeastSquares, Shelf, messages_of, share_right
from nightjar.simulation.rounds.ports import (
    ALL_HOLD,
    ONE_LOST,
    AnyCoordinator,
    FixedExamples,
    ReportObserver,
    SimulatedArtifacts,
    SimulatedClock,
    SimulatedConditions,
    SimulatedSums,
    SimulatedTransport,
    SimulatedWorker,
)
from nightjar.simulation.rounds.process import EPOCH_S, CoordinatorProcess
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.wire import messages, topics
from nightjar.wire.errors import NightjarError, UnavailableError
from nightjar.wire.frame import KeyboardEvaluation
from nightjar.wire.identifiers import DeviceId, Population, Sha256
from nightjar.wire.messages import Announcement, Status
from nightjar.wire.parameters import Vector

PACE = Pace(poll_s=1.0, hysteresis_s=120.0, session_limit_s=585.0)
"""The agent's defaults."""
TRAINING_S = (45.0, 0.5)
"""Median of the training time, and standard deviation of its logarithm: 200 batches of the 1.41M-parameter model on a
phone; phones differ by a factor of three in both directions."""
FETCH_S = (3.0, 0.8)
"""Median and log standard deviation of the download of 5.65 MB of weights: 15 Mbit/s; a tenth needs over 8 s."""
FIRST_MINUTES_S = 600.0
"""The agents start within this time, and windows that are already open begin within it."""
PATIENCE = Patience()
"""Retries of a download, as in the agent."""
SLOW_FACTOR = 6.0
"""Slowdown of a ten-year-old phone; it may miss the report deadline."""
BATCH_S = 0.5
"""Time until a stopped training has finished its batch."""
REBOOT_S = (20.0, 90.0)
"""From a quick restart of the process to a boot of the phone."""
DISK_FULL_S = (30.0, 900.0)
"""Until the user or the system frees space; longer than a download's retries and than most rounds."""
UNPLUGGED_S = (30.0, 1800.0)
"""From a glance at the phone to half an hour of use."""
CLOCK_JUMP_S = 400 * 86_400.0
"""After an empty battery, the clock may show any date."""
LASTS_S = {
    "ineligible": 60.0, "settling": 120.0, "checked-in": 20.0, "preparing": 3.0, "training": 45.0, "finishing": 1.0,
    "reporting": 0.2, "resting": 60.0,
}  # fmt: skip
"""A power cut that was drawn for a state happens within this time if the phone is still in the state."""
LETTERS = 1000
"""Keystrokes of the held-out messages, of which a version saves the share of the words that it predicts."""
TOUCHES = 4
"""A power cut between two writes happens within this many accesses to the journal."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment that all phones share."""

    timeline: Timeline
    broker: Broker
    availability: Availability
    dice: Dice
    shelf: Shelf
    coordinator: CoordinatorProcess
    observer: ReportObserver
    free_changed: Callable[[int], None]  # +1 when a phone becomes free to train, -1 when it no longer is
    generator: np.random.Generator  # of jitter and durations
    population: Population
    seed: int  # root seed of everything else
    evaluates: bool = False  # whether phones have enough messages to hold some out


class Phone:
    """One phone, awake or asleep; numbers begin with 0."""

    __slots__ = (
        "_announced", "_around", "_booted_s", "_clock_offset_s", "_connected", "_disk_full_until_s", "_driver",
        "_free_until_s", "_fuse", "_job", "_journal", "_life", "_model", "_off", "_poll_at_s", "_shown",
        "_slow", "_steps_left", "_stopped", "_unplugged_until_s", "_working", "device", "number",
    )  # fmt: skip

    def __init__(self, number: int, around: Surroundings) -> None:
        self.number = number
        self.device = DeviceId(f"phone-{number:06d}")
        self._around = around
        self._fuse: Fuse | None = None
        self._journal = self._open_journal()
        self._driver: Driver | None = None
        self._life = 0
        self._off = True
        self._model: Model | None = None
        self._announced: Model | None = None
        self._connected = False
        self._booted_s = 0.0
        self._clock_offset_s = 0.0
        self._disk_full_until_s = -math.inf
        self._unplugged_until_s = -math.inf
        self._free_until_s = -math.inf
        self._poll_at_s = math.inf
        self._shown = ""
        self._job: Job | None = None
        self._stopped = 0
        self._steps_left = 0
        self._working = (0.0, math.inf)
        self._slow = around.dice.strikes(SimulatedFault.SLOW)
        if self._slow:
            around.dice.note(SimulatedFault.SLOW)
        around.timeline.at(self._share_of(FIRST_MINUTES_S), self._boot)
        self._plan_window(0.0)

    # What another kind of phone keeps elsewhere

    def _open_journal(self) -> SimulatedJournal:
        return MemoryJournal(self._touched, partial(self._around.observer.produced, self.device))

    def _examples(self) -> ExampleStore:
        return FixedExamples(messages_of(self.number, many=self._around.evaluates))

    def _identity(self) -> AgentIdentity:
        return AgentIdentity(self._around.population, self.device, "least squares", 8, 4 << 30, emulated=True)

    def _notice(self) -> str:
        return ""

    # Windows

    def _share_of(self, span_s: float) -> float:
        """This phone's moment in a span; the moments of all phones are spread evenly."""
        return self.number * 0.618 % 1.0 * span_s

    def _plan_window(self, after_s: float) -> None:
        begin_s, end_s = self._around.availability.next_window(self.number, after_s)
        if begin_s < after_s:  # only at midnight of the first day
            begin_s = after_s + self._share_of(min(FIRST_MINUTES_S, end_s - after_s))
        self._around.timeline.at(begin_s, partial(self._open_window, end_s))

    def _open_window(self, end_s: float) -> None:
        self._free_until_s = end_s
        self._around.free_changed(1)
        self._around.timeline.at(end_s, self._close_window)
        self._happen(lambda _driver: None)

    def _close_window(self) -> None:
        self._around.free_changed(-1)
        if self._driver is not None:
            self._poll_soon()
        self._plan_window(self._around.timeline.now_s)

    def _conditions(self) -> Readings:
        now_s = self._around.timeline.now_s
        if now_s < self._unplugged_until_s:
            return ONE_LOST[0]
        if now_s < self._free_until_s:
            return ALL_HOLD
        lost = (self.number + int(self._free_until_s)) % len(ONE_LOST) if self._free_until_s > 0 else 0
        return ONE_LOST[lost]

    # Life

    def _boot(self) -> None:
        self._life += 1
        self._off = False
        # Whole seconds, so that the difference of two polls is exact.
        self._booted_s = math.floor(self._around.timeline.now_s)
        self._happen(lambda _driver: None)
        self._connect()

    def _connect(self) -> None:
        life = self._life
        self._around.broker.connect(self, self._will(), lambda: self._life == life and not self._connected)

    def _will(self) -> tuple[str, bytes]:
        topic = topics.status(self._around.population, self.device)
        return topic, messages.encode(Status(online=False, reason="connection lost"))

    def _wake(self) -> Driver:
        if self._driver is None:
            # The agent starts unconnected, like a real one, so it sends nothing when it wakes.
            connected, self._connected = self._connected, False
            self._driver = self._make_driver()
            self._driver.begin()
            if self._conditions() is not ALL_HOLD:  # it already knew that it is not free
                self._driver.poll()
            self._connected = connected
        return self._driver

    def _happen(self, what: Callable[[Driver], None]) -> None:
        """Apply an event to the driver; then draw faults and plan the next poll."""
        if self._off:
            return
        life = self._life
        try:
            driver = self._wake()
            what(driver)
        except PowerCut:
            self._lose_power()
            return
        if self._life == life:
            self._after(driver)

    def _after(self, driver: Driver) -> None:
        state = lifecycle.name(driver.state)
        if state != self._shown:
            self._shown = state
            self._throw_dice(driver)
        due_s = driver.due_at_s()
        if due_s is not None:
            self._poll_at(max(due_s + self._booted_s, self._around.timeline.now_s))
        elif isinstance(driver.state, Ineligible):
            self._poll_soon()

    def _throw_dice(self, driver: Driver) -> None:
        dice, timeline = self._around.dice, self._around.timeline
        state = self._shown
        if isinstance(driver.state, Training) and dice.strikes(SimulatedFault.UNPLUG):
            self._later(dice.between(0.0, TRAINING_S[0]), self._unplug)
        match dice.one_of(PHONE_FAULTS, state):
            case SimulatedFault.POWER_CUT if dice.between(0.0, 1.0) < 0.5:
                dice.note(SimulatedFault.POWER_CUT, state)
                self._fuse = Fuse(dice.within(1, TOUCHES))
            case SimulatedFault.POWER_CUT:
                self._later(dice.between(0.0, LASTS_S[state]), partial(self._lose_power_in, state))
            case SimulatedFault.PHONE_DISK_FULL:
                dice.note(SimulatedFault.PHONE_DISK_FULL, state)
                self._disk_full_until_s = timeline.now_s + dice.between(*DISK_FULL_S)
            case SimulatedFault.PHONE_CLOCK_JUMP:
                dice.note(SimulatedFault.PHONE_CLOCK_JUMP, state)
                self._clock_offset_s = dice.between(-CLOCK_JUMP_S, CLOCK_JUMP_S)
            case _:
                pass

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Plan a call of this process; it is dropped if the phone loses power before."""
        life = self._life
        self._around.timeline.after(delay_s, lambda: call() if self._life == life else None)

    def _unplug(self) -> None:
        if self._driver is not None:
            self._around.dice.note(SimulatedFault.UNPLUG)
            self._unplugged_until_s = self._around.timeline.now_s + self._around.dice.between(*UNPLUGGED_S)
            self._poll_soon()
            self._around.timeline.at(self._unplugged_until_s, self._plugged_in)

    def _plugged_in(self) -> None:
        if self._around.timeline.now_s < self._free_until_s:
            self._happen(lambda _driver: None)

    def _lose_power_in(self, state: str) -> None:
        if self._shown == state:
            self._around.dice.note(SimulatedFault.POWER_CUT, state)
            self._lose_power()

    def _lose_power(self, off_s: float | None = None) -> None:
        """End the process; only the journal survives. It starts again after ``off_s``, or as soon as phones do."""
        self._life += 1
        self._off = True
        self._driver, self._job, self._fuse = None, None, None
        self._shown = ""
        if self._connected:
            self._connected = False
            self._around.broker.vanished(self, self._will())
        self._later(self._around.dice.between(*REBOOT_S) if off_s is None else off_s, self._boot)

    # Polling the conditions

    def _poll_soon(self) -> None:
        self._poll_at(self._around.timeline.now_s)

    def _poll_at(self, when_s: float) -> None:
        """Plan a poll for the agent's first polling time at or after ``when_s`` that is in the future."""
        phase = (self.number % 64) / 64
        tick_s = math.ceil(when_s - phase) + phase
        if tick_s <= self._around.timeline.now_s:
            tick_s += PACE.poll_s
        if tick_s < self._poll_at_s:
            self._poll_at_s = tick_s
            self._around.timeline.at(tick_s, partial(self._poll, tick_s))

    def _poll(self, tick_s: float) -> None:
        if self._poll_at_s != tick_s:
            return
        self._poll_at_s = math.inf
        if self._driver is None:
            return
        self._happen(lambda driver: driver.poll())
        self._sleep_if_idle()

    def _sleep_if_idle(self) -> None:
        driver = self._driver
        if driver is None or self._job is not None or not self._connected or not self._journal.empty:
            return
        if isinstance(driver.state, Ineligible) and driver.due_at_s() is None and self._conditions() is not ALL_HOLD:
            self._driver, self._poll_at_s = None, math.inf

    @property
    def outbox_round(self) -> int | None:
        """The round of the report that waits for its receipt; None if there is none."""
        parcel = self._journal.load().parcel
        return None if parcel is None else parcel.round

    # The connection

    @property
    def awake(self) -> bool:
        """Whether the phone has a driver; without one it ignores announcements."""
        return self._driver is not None

    def arrived(self, topic: str, payload: bytes) -> None:
        """Handle a message."""
        if self._connected:
            if self._around.evaluates and isinstance(topics.parse(topic), topics.AnnounceTopic):
                self._hear_announced(payload)
            self._happen(lambda driver: driver.handle(Arrived(topic, payload)))

    def _hear_announced(self, payload: bytes) -> None:
        """The keyboard has the announced version at once: what a download costs is simulated for sessions alone."""
        with contextlib.suppress(NightjarError):  # damaged on its way: the driver logs it
            message = messages.decode("announce", payload)
            if isinstance(message, Announcement):
                self._announced = self._around.shelf.model(offered(message, payload, self.device).manifest)

    def link_down(self) -> None:
        """Handle the loss of the connection."""
        self._connected = False
        if self._off:  # the broker had not noticed yet; the phone connects when it boots
            return
        if self._driver is not None:
            self._happen(lambda driver: driver.handle(LinkDown("the broker is gone")))
        self._connect()

    def link_up(self) -> None:
        """Handle a new connection."""
        self._happen(self._say_connected)

    def _say_connected(self, driver: Driver) -> None:
        self._connected = True
        driver.handle(LinkUp())

    def _publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        return self._connected and self._around.broker.from_phone(topic, payload, retain=retain)

    # Work

    def _start_job(self, job: Job) -> None:
        self._job, self._stopped = job, 0
        driver = self._driver
        training = driver is not None and isinstance(driver.state, Training)
        median_s, spread = TRAINING_S if training else FETCH_S
        seconds = median_s * math.exp(spread * float(self._around.generator.standard_normal()))
        if training and self._slow:
            seconds *= SLOW_FACTOR
        self._later(seconds, partial(self._end_job, job) if training else partial(self._end_fetch, job, 1))
        self._working = (self._around.timeline.now_s, seconds if training else math.inf)

    def _stop_job(self, number: int) -> None:
        if self._job is not None and self._job.number == number:
            self._stopped = number
            began_s, seconds = self._working
            self._steps_left = int(STEPS * (self._around.timeline.now_s - began_s) / seconds)
            self._later(BATCH_S, partial(self._end_job, self._job))

    def _end_fetch(self, job: Job, tries: int) -> None:
        """End a download; it is retried like a real one while the coordinator is down."""
        if self._around.coordinator.up or tries >= PATIENCE.tries:
            self._end_job(job)
        elif self._job is job:
            wait_s = PATIENCE.back_off.delay_s(tries, float(self._around.generator.random()))
            self._later(wait_s, partial(self._end_fetch, job, tries + 1))

    def _end_job(self, job: Job) -> None:
        if self._job is not job:
            return
        self._job = None
        outcome: object
        try:
            outcome = job.work(partial(self._must_stop, job.number))
        except Exception as error:  # like the real worker: the driver logs any exception and continues
            outcome = error
        self._happen(lambda driver: driver.handle(WorkDone(job.number, outcome)))

    def _must_stop(self, number: int) -> bool:
        """Called before each step of a training. All steps run at its end, except those after it was told to stop."""
        if self._stopped != number:
            return False
        self._steps_left -= 1
        return self._steps_left < 0

    def _fetch(self, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
        if should_stop() or not self._around.coordinator.up:
            msg = "the coordinator cannot be reached"
            raise UnavailableError(msg)
        if self._model is None or self._model.sha256 != manifest:
            self._model = self._around.shelf.model(manifest)
            self._around.coordinator.served(self._model.manifest.weights.size_bytes)
        return self._model

    def _load_program(self, model: Model) -> LeastSquares:
        right = share_right(model.manifest.version, self._around.seed)
        return LeastSquares(self._around.shelf.weights(model.manifest), self.optimum(), right)

    def _evaluate_keyboard(
        self, task: SessionTask, _should_stop: Callable[[], bool], _now_s: Callable[[], float]
    ) -> KeyboardEvaluation | None:
        if task.announced is None:
            return None
        ours, theirs = task.model.manifest.version, task.announced.manifest.version
        saved, saved_announced = (int(LETTERS * share_right(each, self._around.seed)) for each in (ours, theirs))
        return KeyboardEvaluation(LETTERS, saved, theirs, saved_announced)

    def _train(self, task: SessionTask, should_stop: Callable[[], bool]) -> Produced | TrainingStopped:
        train = in_this_process(self._load_program, self._monotonic_s, self._evaluate_keyboard)
        done = train(task, should_stop)
        if isinstance(done, Produced) and done.words is not None:
            self._around.observer.contributed(self.device, done.report, done.words)
        return done

    def optimum(self) -> Vector:
        """The optimum of this phone's examples, (n,) float32."""
        generator = np.random.default_rng([self._around.seed, self.number])
        return generator.standard_normal(LAYOUT.size, np.float32)

    # The driver and its ports

    def _touched(self) -> None:
        if self._fuse is not None:
            self._fuse.touch()
        if self._around.timeline.now_s < self._disk_full_until_s:
            msg = "the phone's disk is full"
            raise UnavailableError(msg)

    def _monotonic_s(self) -> float:
        return self._around.timeline.now_s - self._booted_s

    def _wall_s(self) -> float:
        return EPOCH_S + self._around.timeline.now_s + self._clock_offset_s

    def _make_driver(self) -> Driver:
        around, journal = self._around, self._journal
        examples = self._examples()
        ports = Ports(
            clock=SimulatedClock(self._monotonic_s, self._wall_s),
            jitter=lambda: float(around.generator.random()),
            random_for=lambda number, attempt: np.random.default_rng([around.seed, self.number, number, attempt]),
            conditions=SimulatedConditions(self._conditions),
            transport=SimulatedTransport(lambda: self._connected, self._publish),
            artifacts=SimulatedArtifacts(lambda: self._model, self._fetch, lambda: self._model, lambda model: model),
            examples=examples,
            journal=journal,
            worker=SimulatedWorker(self._start_job, self._stop_job),
            desk=SessionDependencies(examples, self._train, announced=lambda: self._announced),
            trust=AnyCoordinator(),
            sums=SimulatedSums(self.number, lambda: around.generator.bytes(32)),
            notice=self._notice,
        )
        inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        return Driver(self._identity(), PACE, ports, inbox)
