"""A simulated coordinator process: runs the real driver, which can be killed and restarted from its disk.

The disk is the repository and the blobs. Everything else dies with the process: the driver, the worker's jobs, and
messages that were not sent to the broker yet. The broker resends messages that were not acknowledged.

Which repository and blobs these are, and who does the jobs, is for subclasses: tables in memory and the real mean
(:mod:`nightjar.simulation.rounds.coordinator`), or the database of the product (:mod:`nightjar.simulation.year`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.driver import MOST_EVENTS, Driver
from nightjar.coordinator.engine.secure_sums import EnrolledKeyOf
from nightjar.coordinator.ports import BlobStore, Repository
from nightjar.coordinator.records.inbox import (
    ArtifactServed,
    BrokerConnected,
    BrokerDisconnected,
    Inbox,
    JobEnded,
    MessageArrived,
    Ticked,
)
from nightjar.coordinator.records.jobs import Job, Result, failed
from nightjar.host.retrying import STORE_AGAIN
from nightjar.simulation.rounds.broker import Broker
from nightjar.simulation.rounds.faults import Dice, Fuse, PowerCut
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.wire.errors import NightjarError, UnavailableError

EPOCH_S = 1.7e9
"""Wall-clock time at the beginning, seconds since 1970."""
TICK_S = 1.0
"""The product ticks four times as often; deadlines are minutes."""
RESTART_S = (3.0, 30.0)
"""Restart by a supervisor; the imports alone take seconds."""
BATCH_S = 0.02
"""Time to handle a batch of events; most of it makes them durable."""
AVERAGING_S = 2.0
"""Duration of an aggregation; long enough to be killed in."""
TOUCHES = 14
"""A kill while a message is handled happens within this many accesses to disk and network: about a transaction."""


class CoordinatorProcess(abc.ABC):
    """A machine that runs a coordinator.

    Args:
        generator: draws the jitter of retry windows.
        give_up_after_s: waiting time after which the process ends because storing still fails, as the product does
            after ten minutes; infinite for a process that goes on trying.
        tick_s: interval between ticks.
        gather_s: how long messages wait for others to be handled with them; in the product they do not wait.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        timeline: Timeline,
        broker: Broker,
        dice: Dice,
        generator: np.random.Generator,
        *,
        give_up_after_s: float,
        tick_s: float = TICK_S,
        gather_s: float = 0.0,
    ) -> None:
        self._config = config
        self._timeline = timeline
        self._broker = broker
        self._dice = dice
        self._generator = generator
        self._give_up_after_s, self._tick_s, self._gather_s = give_up_after_s, tick_s, gather_s
        self._fuse = Fuse()
        self._clock_offset_s = 0.0
        self._driver: Driver | None = None
        self._life = 0
        self._connected = False
        self._unsent: list[tuple[str, bytes, bool]] = []
        self._inbox: list[Inbox] = []
        self._busy = False
        self._storing_fails = ""
        self.restarts = 0  # of the process, whatever ended it
        broker.on_coordinator_link = self._link_changed

    # What a subclass decides

    @abc.abstractmethod
    def _disk(self) -> tuple[Repository, BlobStore]:
        """The repository and the blobs, as a process finds them at its start."""

    @abc.abstractmethod
    def _perform(self, job: Job) -> Result:
        """Do a job of the worker.

        Raises:
            UnavailableError: the disk or the database does not work now.
            NightjarError: the job failed.
        """

    @abc.abstractmethod
    def _look(self) -> None:
        """Called after each batch of events, to observe what it changed."""

    def _enrolled(self) -> EnrolledKeyOf:
        """The enrolled keys of devices; without enrolment none are known."""
        return lambda _device: None

    def _outgoing(self, _topic: str, payload: bytes) -> bytes:
        """A message as it leaves."""
        return payload

    def _dooms(self, _batch: list[Inbox]) -> bool:
        """Whether the process is to be killed while it handles this batch."""
        return False

    # Life

    @property
    def up(self) -> bool:
        """Whether the process is running."""
        return self._driver is not None

    def now_s(self) -> float:
        """Wall-clock time of this machine, which is the driver's clock."""
        return EPOCH_S + self._timeline.now_s + self._clock_offset_s

    def start(self) -> None:
        """Start the process."""
        self._life += 1
        life = self._life
        try:
            repository, artifacts = self._disk()
            driver = Driver(
                self._config,
                repository,
                artifacts,
                _Transport(self._publish),
                _Worker(self._submit),
                self,  # its clock
                self._generator,
                enrolled=self._enrolled(),
            )
            self._driver = driver
            driver.resume()
        except (PowerCut, UnavailableError):
            self.kill()
            return
        self._look()
        self._broker.connect_coordinator(self._arrived, lambda: self._life == life and not self._connected)
        self._after(self._tick_s, self._tick)

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Plan a call of this process; it is dropped if the process dies before."""
        life = self._life
        self._timeline.after(delay_s, lambda: call() if self._life == life else None)

    def kill(self) -> None:
        """Kill the process (SIGKILL); it is restarted a little later."""
        self._life += 1
        self.restarts += 1
        self._driver = None
        self._connected = False
        self._unsent.clear()
        self._inbox.clear()
        self._busy, self._storing_fails = False, ""
        self._fuse.left = None
        self._broker.coordinator_vanished()
        self._after(self._dice.between(*RESTART_S), self.start)

    def handle(self, event: Inbox) -> None:
        """Queue an event for the driver, if it runs; events that arrive while it is busy form its next batch."""
        if self._driver is None:
            return
        self._inbox.append(event)
        if self._busy:
            return
        if self._gather_s:
            self._busy = True
            self._after(self._gather_s, self._free)
        else:
            self._work()

    def _work(self) -> None:
        """Handle queued events like the driver's own loop: batch by batch, with retries."""
        driver, batch = self._driver, self._inbox[:MOST_EVENTS]
        if driver is None or not batch:
            return
        self._busy = True
        del self._inbox[: len(batch)]
        if self._dooms(batch):
            self._fuse.left = self._dice.within(1, TOUCHES)
        self._try(list(driver.steps(batch)), tries=0, waited_s=0.0)

    def _try(self, steps: list[Callable[[], None]], tries: int, waited_s: float) -> None:
        try:
            while steps:
                steps[0]()
                steps.pop(0)
        except PowerCut:
            self.kill()
        except UnavailableError as error:
            self._storing_fails = str(error)
            if waited_s >= self._give_up_after_s:
                self.kill()
                return
            wait_s = STORE_AGAIN.delay_s(tries + 1, jitter=0.0)
            self._after(wait_s, partial(self._try, steps, tries + 1, waited_s + wait_s))
        else:
            self._storing_fails = ""
            self._look()
            self._after(BATCH_S, self._free)

    def _free(self) -> None:
        self._busy = False
        self._work()

    def _tick(self) -> None:
        self._after(self._tick_s, self._tick)
        if not self._busy or self._gather_s:  # the driver ticks only between batches
            self.handle(Ticked())

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
        payload = self._outgoing(topic, payload)
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
            result = self._perform(job)
        except PowerCut:
            self.kill()
            return
        except UnavailableError:  # the real worker retries, too
            self._after(STORE_AGAIN.delay_s(1, jitter=0.0), partial(self._do_job, job))
            return
        except NightjarError as error:
            result = failed(job, str(error))
        self.handle(JobEnded(result))


@dataclass(frozen=True, slots=True)
class _Transport:
    send: Callable[[str, bytes, bool], None]

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.send(topic, payload, retain)


@dataclass(frozen=True, slots=True)
class _Worker:
    submit: Callable[[Job], None]
