"""The simulated coordinator process: runs the real driver, which can be killed and restarted from its disk.

The disk is the repository and the blobs. Everything else dies with the process: the driver, the worker's jobs, and
messages that were not sent to the broker yet. The broker resends messages that were not acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.engine.driver import MOST_EVENTS, Driver
from nightjar.coordinator.records.inbox import (
    ArtifactServed,
    BrokerConnected,
    BrokerDisconnected,
    Inbox,
    JobEnded,
    MessageArrived,
    Ticked,
)
from nightjar.coordinator.records.jobs import AggregationDone, AggregationJob, Job, Result, failed
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.round import TERMINAL, Phase, Round
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.host.retrying import STORE_AGAIN
from nightjar.models.manifest import Manifest
from nightjar.simulation.rounds.broker import Broker
from nightjar.simulation.rounds.faults import PHASE_FAULTS, Dice, Fuse, PowerCut, SimulatedFault
from nightjar.simulation.rounds.observer import Observer
from nightjar.simulation.rounds.ports import enrolled_key
from nightjar.simulation.rounds.storage import MemoryBlobs, MemoryRepository
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.wire import messages
from nightjar.wire.errors import NightjarError, UnavailableError
from nightjar.wire.messages import Receipt, Rejection
from nightjar.wire.parameters import Vector

EPOCH_S = 1.7e9
"""Wall-clock time at the beginning, seconds since 1970."""
TICK_S = 1.0
"""The product ticks four times as often; deadlines are minutes."""
RESTART_S = (3.0, 30.0)
"""Restart by a supervisor; the imports alone take seconds."""
UNSTEERED_S = 60.0
"""Retry time for every phone without pace steering."""
BATCH_S = 0.02
"""Time to handle a batch of events; most of it makes them durable."""
AVERAGING_S = 2.0
"""Duration of an aggregation; long enough to be killed in."""
DISK_FULL_S = (5.0, 60.0)
"""Longer than the first back-off waits, shorter than the ten minutes after which the coordinator gives up."""
BROKER_DOWN_S = (2.0, 30.0)
"""A restarted service, or a moved container."""
CLOCK_JUMP_S = (0.5, 600.0)
"""From a daily NTP correction to a suspended virtual machine."""
LASTS_S = {Phase.SELECTION: 20.0, Phase.REPORTING: 60.0, Phase.COMMITTING: 2.0}
"""A fault that was drawn for a phase happens within this time if the round is still in the phase."""
TOUCHES = 14
"""A kill while a message is handled happens within this many accesses to disk and network: about a transaction."""


class CoordinatorHost:
    """A machine that runs a coordinator, whose artifacts already have version 0, the one of the manifest.

    ``generator`` draws the jitter of retry windows. Without ``steered``, phones get a fixed retry time instead of those
    of pace steering.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        timeline: Timeline,
        broker: Broker,
        dice: Dice,
        artifacts: MemoryBlobs,
        manifest: Manifest,
        generator: np.random.Generator,
        observer: Observer,
        *,
        steered: bool = True,
    ) -> None:
        self._config = config
        self._steered = steered
        self._timeline = timeline
        self._broker = broker
        self._dice = dice
        self._artifacts = artifacts
        self._generator = generator
        self._observer = observer
        self._fuse = Fuse()
        self._doomed = ""
        self._disk_full_until_s = -math.inf
        self._clock_offset_s = 0.0
        self._driver: Driver | None = None
        self._life = 0
        self._connected = False
        self._unsent: list[tuple[str, bytes, bool]] = []
        self._inbox: list[Inbox] = []
        self._busy = False
        self._open: dict[int, Phase] = {}
        self._newest = 0
        self.troubles: list[
            tuple[float, SimulatedFault]
        ] = []  # (virtual time, fault) of the coordinator and the broker
        self.repository = MemoryRepository(self._touched)
        artifacts.touched = self._touched  # they are on the same disk
        with self.repository.transaction() as tx:
            tx.add_version(
                VersionRecord(version=0, task=config.task.name, manifest=manifest.sha256, created_s=self.now_s())
            )
        broker.on_coordinator_link = self._link_changed

    @property
    def up(self) -> bool:
        """Whether the process is running."""
        return self._driver is not None

    def now_s(self) -> float:
        """Wall-clock time of this machine, which is the driver's clock."""
        return EPOCH_S + self._timeline.now_s + self._clock_offset_s

    # Life

    def start(self) -> None:
        """Start the process."""
        self._life += 1
        life = self._life
        try:
            with self.repository.transaction() as tx:
                tx.sweep_states()
            driver = Driver(
                self._config,
                self.repository,
                self._artifacts,
                _Transport(self._publish),
                _Worker(self._submit),
                self,  # its clock
                self._generator,
                enrolled=lambda device: enrolled_key(int(device.rsplit("-", 1)[1])).public,
            )
            self._driver = driver
            driver.resume()
        except (PowerCut, UnavailableError):
            self.kill()
            return
        self._look()
        self._broker.connect_coordinator(self._arrived, lambda: self._life == life and not self._connected)
        self._after(TICK_S, self._tick)

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Plan a call of this process; it is dropped if the process dies before."""
        life = self._life
        self._timeline.after(delay_s, lambda: call() if self._life == life else None)

    def kill(self) -> None:
        """Kill the process (SIGKILL); it is restarted a little later."""
        self._life += 1
        self._driver = None
        self._connected = False
        self._unsent.clear()
        self._inbox.clear()
        self._busy = False
        self._fuse.left = None
        self._broker.coordinator_vanished()
        self._after(self._dice.between(*RESTART_S), self.start)

    def handle(self, event: Inbox) -> None:
        """Queue an event for the driver, if it runs; events that arrive while it is busy form its next batch."""
        if self._driver is None:
            return
        self._inbox.append(event)
        if not self._busy:
            self._work()

    def _work(self) -> None:
        """Handle queued events like the driver's own loop: batch by batch, with retries."""
        driver, batch = self._driver, self._inbox[:MOST_EVENTS]
        if driver is None or not batch:
            return
        self._busy = True
        del self._inbox[: len(batch)]
        if self._doomed and any(_is_of(event, self._doomed) for event in batch):
            self._doomed = ""
            self._fuse.left = self._dice.within(1, TOUCHES)
        self._try(list(driver.steps(batch)), tries=0)

    def _try(self, steps: list[Callable[[], None]], tries: int) -> None:
        try:
            while steps:
                steps[0]()
                steps.pop(0)
        except PowerCut:
            self.kill()
        except UnavailableError:
            wait_s = STORE_AGAIN.delay_s(tries + 1, jitter=0.0)
            self._after(wait_s, partial(self._try, steps, tries + 1))
        else:
            self._look()
            self._after(BATCH_S, self._free)

    def _free(self) -> None:
        self._busy = False
        self._work()

    def _tick(self) -> None:
        self._after(TICK_S, self._tick)
        if not self._busy:  # the driver ticks only between batches
            self.handle(Ticked())

    def _look(self) -> None:
        """Detect phase changes of rounds, report them to the observer and draw faults for new phases."""
        view = self.repository.view
        current = view.open_rounds()
        if {state.number: state.phase for state in current} == self._open:
            return
        newest = view.last_round_number()
        for number in sorted({*self._open, *range(self._newest + 1, newest + 1)}):
            ended = view.round(number)
            if ended is not None and ended.phase in TERMINAL:
                self._observer.over(ended)
        before, self._newest = self._open, newest
        self._open = {state.number: state.phase for state in current}
        for state in current:
            if before.get(state.number) is not state.phase:
                self._enter(state)

    def _enter(self, state: Round) -> None:
        self._observer.entered(state)
        fault = self._dice.one_of(PHASE_FAULTS, state.phase.value)
        if fault is not None:
            delay_s = self._dice.between(0.0, LASTS_S[state.phase])
            self._timeline.after(delay_s, partial(self._suffer, fault, state.number, state.phase))

    def _suffer(self, fault: SimulatedFault, number: int, phase: Phase) -> None:
        if self._open.get(number) is not phase or not self.up:
            return
        self._dice.note(fault, phase.value)
        self.troubles.append((self._timeline.now_s, fault))
        match fault:
            case SimulatedFault.COORDINATOR_RESTART if self._dice.between(0.0, 1.0) < 0.5:
                self.kill()
            case SimulatedFault.COORDINATOR_RESTART:
                self._doomed = "/report" if phase is Phase.REPORTING else "/up/"
            case SimulatedFault.COORDINATOR_DISK_FULL:
                self._disk_full_until_s = self._timeline.now_s + self._dice.between(*DISK_FULL_S)
            case SimulatedFault.COORDINATOR_CLOCK_JUMP:
                size_s = math.exp(self._dice.between(*map(math.log, CLOCK_JUMP_S)))
                self._clock_offset_s += size_s if self._dice.between(0.0, 1.0) < 0.5 else -size_s
            case SimulatedFault.BROKER_RESTART | SimulatedFault.BROKER_AMNESIA:
                self._broker.restart(self._dice.between(*BROKER_DOWN_S), forget=fault is SimulatedFault.BROKER_AMNESIA)
            case _:
                pass

    # The broker

    def _link_changed(self, up: bool) -> None:
        self._connected = up
        if not up:
            life = self._life
            self.handle(BrokerDisconnected())
            self._broker.connect_coordinator(self._arrived, lambda: self._life == life and not self._connected)
            return
        unsent, self._unsent = self._unsent, []
        for topic, payload, retain in unsent:
            self._broker.from_coordinator(topic, payload, retain=retain)
        self.handle(BrokerConnected())

    def _arrived(self, topic: str, payload: bytes, retained: bool, acknowledge: Callable[[], None]) -> None:
        self.handle(MessageArrived(topic, payload, retained, acknowledge))

    def _publish(self, topic: str, payload: bytes, retain: bool) -> None:
        self._fuse.touch()
        if not self._steered:
            payload = _unsteered(topic, payload)
        if self._connected:
            self._broker.from_coordinator(topic, payload, retain=retain)
        else:
            self._unsent.append((topic, payload, retain))

    def served(self, size_bytes: int) -> None:
        """Note that a phone fetched an artifact."""
        self.handle(ArtifactServed(size_bytes))

    # The worker

    def _submit(self, job: Job) -> None:
        self._after(AVERAGING_S, partial(self._do_job, job))

    def _do_job(self, job: Job) -> None:
        result: Result
        try:
            result = do_job(job, self._artifacts, self.repository.view, _measure_nothing)
        except PowerCut:
            self.kill()
            return
        except UnavailableError:  # the real worker retries, too
            self._after(STORE_AGAIN.delay_s(1, jitter=0.0), partial(self._do_job, job))
            return
        except NightjarError as error:
            result = failed(job, str(error))
        if isinstance(job, AggregationJob) and isinstance(result, AggregationDone):
            self._observer.averaged(job, result)
        self.handle(JobEnded(result))

    def _touched(self) -> None:
        self._fuse.touch()
        if self._timeline.now_s < self._disk_full_until_s:
            msg = "the coordinator's disk is full"
            raise UnavailableError(msg)


def _is_of(event: Inbox, part: str) -> bool:
    """Whether the event is the end of a job, or a message whose topic contains ``part``."""
    return isinstance(event, JobEnded) or (isinstance(event, MessageArrived) and part in event.topic)


def _unsteered(topic: str, payload: bytes) -> bytes:
    """The message with a fixed retry time, if it has a retry time at all."""
    kind = topic.rsplit("/", 1)[-1]
    if kind not in {"rejection", "receipt"}:
        return payload
    message = messages.decode(kind, payload)
    if not isinstance(message, Rejection | Receipt):
        return payload
    return messages.encode(msgspec.structs.replace(message, retry_after_s=UNSTEERED_S))


def _measure_nothing(_manifest: Manifest, _weights: Vector, _text: str) -> VersionMetrics:
    return VersionMetrics(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Transport:
    send: Callable[[str, bytes, bool], None]

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.send(topic, payload, retain)


@dataclass(frozen=True, slots=True)
class _Worker:
    submit: Callable[[Job], None]
