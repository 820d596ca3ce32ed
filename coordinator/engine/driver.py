"""The driver: the event loop that connects the pure core to I/O, with one thread and one queue.

Theory of operation
===================

The driver takes events from the queue in batches: everything that arrived while it handled the previous batch, up to a
bound. ONE database transaction writes the next state of the rounds, the accepted reports with their bytes, and the
resulting effects. The effects are carried out only after the commit; the next transaction removes their rows.
Receipts and other answers go out first, then the MQTT messages behind the events are acknowledged, then heavy work is
started. At low load a batch has one event; in a burst hundreds of reports share the cost of one commit. If an event
raises an error, the whole batch is rolled back and each of its events is handled again in a batch of its own. So if the
process is killed:

- before the commit, nothing has changed; the broker, or the device that got no receipt, sends the message again;
- after the commit, the effects are pending and are carried out at the next start, some of them for the second time.
  Answers (:data:`ANSWERS`) are not stored: a device that gets no answer asks again.

Carrying out an effect twice is harmless: a device ignores a repeated assignment or receipt, an aggregation that is
already committed is not committed again, and a report for a seat that has already reported is a DUPLICATE. Losing a
message in the MQTT client when the process dies is harmless as well, because devices repeat their check-in or report
until they get an answer.

Memory holds only what the database also holds, and changes only after a commit. So when the disk is full or the
database is locked (UnavailableError), the driver retries the same batch until it succeeds. Until then nothing is
acknowledged, and the broker keeps incoming messages. If retrying does not help for long, the process ends.

A malformed message is counted. A message whose handling raises an unexpected error is logged, counted and acknowledged,
and changes nothing: otherwise the broker would redeliver it forever.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import structlog

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.administration import operate, told
from nightjar.coordinator.engine.cohort_service import CohortService
from nightjar.coordinator.engine.effect_runner import EffectRunner
from nightjar.coordinator.engine.job_results import JobResults
from nightjar.coordinator.engine.label_service import LabelService
from nightjar.coordinator.engine.message_handler import MessageHandler
from nightjar.coordinator.engine.release_service import ReleaseService
from nightjar.coordinator.engine.rollout_service import RolloutService
from nightjar.coordinator.engine.round_context import RoundContexts
from nightjar.coordinator.engine.round_service import RoundService
from nightjar.coordinator.engine.secure_sums import EnrolledKeyOf, SecureSums
from nightjar.coordinator.engine.task_creation import TaskCreator, take_stock
from nightjar.coordinator.engine.task_service import TaskService
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.ports import BlobStore, Clock, Repository, Signer, Transport, Worker
from nightjar.coordinator.records.effects import (
    AnnounceModel,
    ClearRetained,
    EvaluateVersion,
    PendingEffect,
    SendMissing,
    SendSumQuestion,
)
from nightjar.coordinator.records.inbox import (
    ArtifactServed,
    BrokerConnected,
    BrokerDisconnected,
    BrokerDropped,
    BrokerRefused,
    DeviceFlooded,
    Inbox,
    JobEnded,
    MessageArrived,
    Operated,
    SessionLost,
    ShutdownRequested,
    Ticked,
)
from nightjar.coordinator.rounds.events import RejectCheckIn, SendReceipt, StartAggregation
from nightjar.host.primitives import LibraryPrimitives
from nightjar.host.retrying import keep_trying
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import Succession

TICK_S = 0.25
"""Interval between ticks; deadlines are in seconds."""
LISTEN_S = 2.0
"""For this long after a reconnect to the broker no deadline expires: reports may be waiting in its queue."""
ANNOUNCED_AGAIN_S = 86400.0
"""Interval between repeats of the announcement, whose signature is valid for a month."""
ANSWERS = (SendReceipt, SendMissing, SendSumQuestion, RejectCheckIn, ClearRetained)
"""Effects that need no storage: devices repeat a report, a query or a check-in until it is answered, and the broker
sends retained messages again on each subscription; a secure sum asks again after a restart. Storing these effects would
add a fifth to the time of a burst."""
WORK = (StartAggregation, EvaluateVersion)
"""Effects that no device waits for; they are carried out after the messages that devices wait for."""
MOST_EVENTS = 256
"""Maximum events per batch: more would save little, and the first device would wait longer for its receipt."""
MOST_BYTES = 8 * 2**20
"""Maximum bytes of the messages in one batch: limits the size of a transaction even if all are large chunks."""

_log = structlog.get_logger("coordinator")


class Driver:
    """The coordinator without its sockets. Only ``post`` may be called from other threads.

    ``turned`` is the heartbeat for a watchdog, called several times a second while the loop runs. Without a ``signer``
    orders are not signed. ``seed_of_draw`` gives the seed of a round's draw by its number; without it that is the
    configuration's, so that a simulation can be repeated.

    Raises:
        LocalProtocolError: the database holds no version of the configuration's task.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        repository: Repository,
        artifacts: BlobStore,
        transport: Transport,
        worker: Worker,
        clock: Clock,
        generator: np.random.Generator,
        signer: Signer | None = None,
        turned: Callable[[], None] = lambda: None,
        enrolled: EnrolledKeyOf = lambda _device: None,
        seed_of_draw: Callable[[int], int] | None = None,
    ) -> None:
        self._config = config
        self._turned = turned
        self._repository = repository
        self._clock = clock
        self._transport = transport
        self._inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self._served: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._trouble = ""
        self._pending: deque[tuple[int | None, PendingEffect]] = deque()
        self._unacknowledged: list[MessageArrived] = []
        self._done: list[int] = []
        self._listening_since_s: float | None = None
        with repository.transaction() as tx:
            self._snapshot = take_stock(tx, config, clock.now_s())
        signer = signer or _NoSigner()
        self._creator = TaskCreator(config, artifacts)
        self._rollouts = RolloutService(config, artifacts)
        self._releases = ReleaseService(config.rollout)
        self._labels = LabelService()
        self._results = JobResults(artifacts, self._rollouts, config.seed)
        contexts = RoundContexts(artifacts, config.rollout.share)
        cohorts = CohortService(contexts, config.limits.least_cohort)
        self._sums = SecureSums(config.population, config.task.name, contexts, cohorts, enrolled, LibraryPrimitives())
        self._tasks = TaskService(config.task.name, config.seed, seed_of_draw)
        self._rounds = RoundService(self._tasks, self._rollouts, self._sums, cohorts)
        self._messages = MessageHandler(config.population, contexts, self._rounds, self._sums)
        self._runner = EffectRunner(config, repository, contexts, transport, worker, clock, generator, signer)

    def post(self, event: Inbox) -> None:
        """Queue an event; may be called from any thread."""
        if isinstance(event, ShutdownRequested):
            self._stopping.set()
        # Downloads are counted at the next tick: one transaction per download would slow down the next one.
        (self._served if isinstance(event, ArtifactServed) else self._inbox).put(event)

    @property
    def trouble(self) -> str:
        """Why storing fails at the moment; empty if it does not. Any thread may read it."""
        return self._trouble

    @property
    def not_enforced(self) -> list[str]:
        """Limits that the broker has failed to enforce since the start. Any thread may read it."""
        return sorted(self._messages.not_enforced)

    def run(self) -> None:
        """Handle events until ShutdownRequested arrives.

        Raises:
            UnavailableError: the disk or the database failed for too long.
        """
        self._patiently(self._resumption())
        next_tick_s = self._clock.now_s()
        while True:
            now_s = self._clock.now_s()
            if not next_tick_s - 2 * TICK_S < now_s < next_tick_s:  # due, or the clock was set back
                next_tick_s = now_s + TICK_S
                self._turned()
                self._patiently(self.steps([Ticked(), *_waiting_in(self._served)]))
            try:
                first = self._inbox.get(timeout=max(next_tick_s - self._clock.now_s(), 0.0))
            except queue.Empty:
                continue
            self._patiently(self.steps(self._batch(first)))
            if self._stopping.is_set():
                self._patiently(self.steps([*_waiting_in(self._served)]))
                return

    def _batch(self, first: Inbox) -> list[Inbox]:
        """The first event and those waiting in the queue, up to the bounds of a batch."""
        batch, size_bytes = [], 0
        for event in itertools.chain([first], _waiting_in(self._inbox)):
            batch.append(event)
            if isinstance(event, MessageArrived):
                size_bytes += len(event.payload)
            if len(batch) >= MOST_EVENTS or size_bytes >= MOST_BYTES:
                break
        return batch

    def _patiently(self, steps: Sequence[Callable[[], None]]) -> None:
        """Run the steps in order, and retry each while the disk or the database fails."""
        began_s, refusals = self._clock.now_s(), 0

        def refused(error: UnavailableError, _wait_s: float) -> None:
            nonlocal refusals
            refusals += 1
            if not self._trouble:
                _log.error("not_stored", error=str(error), again="until it works; said once")
            self._trouble = str(error)
            self._turned()

        for step in steps:
            keep_trying(step, self._stopping.wait, refused)
        if refusals:
            _log.info("stored_again", after_s=round(self._clock.now_s() - began_s, 1), failed_tries=refusals)
            self._trouble = ""

    def resume(self) -> None:
        """Carry out the effects that a former process left pending, and open missing rounds. Does not retry.

        Raises:
            UnavailableError: the disk or the database failed.
        """
        for step in self._resumption():
            step()

    def _resumption(self) -> tuple[Callable[[], None], ...]:
        return self._take_up, self._follow_up

    def _take_up(self) -> None:
        with self._repository.transaction() as tx:
            unit = UnitOfWork(tx, self._clock.now_s(), self._snapshot)
            unfinished = self._rounds.resume(tx.begin_effects(), unit)
            added = _add(unit)
        self._adopt(unit)
        self._pending.extend([*unfinished, *added])

    def handle(self, *batch: Inbox) -> None:
        """Handle a batch of events, down to its last effect. Does not retry.

        Raises:
            UnavailableError: the disk or the database failed.
        """
        for step in self.steps(batch):
            step()

    def steps(self, batch: Sequence[Inbox]) -> tuple[Callable[[], None], ...]:
        """The steps that handle a batch, in order; a step that raises UnavailableError may be retried."""
        return (lambda: self._take(batch)), self._follow_up

    def _take(self, batch: Sequence[Inbox]) -> None:
        """Store the changes of all events in one transaction."""
        try:
            with self._repository.transaction() as tx:
                unit = UnitOfWork(tx, self._clock.now_s(), self._snapshot)
                tx.remove_effects(self._done)
                for event in batch:
                    self._take_event(event, unit)
                added = _add(unit)
        except UnavailableError:
            raise
        except Exception:
            if len(batch) > 1:
                for event in batch:
                    self._take([event])
                return
            # A bug of ours must not make the broker redeliver a message forever.
            _log.exception("event_failed", kind=type(batch[0]).__name__)
            with self._repository.transaction() as tx:
                tx.count("events_failed")
        else:
            self._done.clear()
            self._adopt(unit)
            self._pending.extend(sorted(added, key=_is_work))
        self._unacknowledged.extend(event for event in batch if isinstance(event, MessageArrived))

    def _adopt(self, unit: UnitOfWork) -> None:
        self._snapshot = unit.snapshot
        for call in unit.after_commit:
            call()

    def _follow_up(self) -> None:
        """Carry out the stored effects, and acknowledge the messages."""
        while self._pending and not _is_work(self._pending[0]):
            self._carry_out_next()
        for message in self._unacknowledged:
            message.acknowledge()
        self._unacknowledged.clear()
        while self._pending:
            self._carry_out_next()

    def _carry_out_next(self) -> None:
        number, effect = self._pending[0]
        done = self._runner.carry_out(effect, self._snapshot)
        if number is not None and done:
            self._done.append(number)
        elif number is not None:
            self._results.expect(effect, number)
        self._pending.popleft()

    def _take_event(self, event: Inbox, unit: UnitOfWork) -> None:
        match event:
            case MessageArrived():
                if not event.refused():
                    self._messages.take(event, unit)
            case Ticked():
                since_s = self._listening_since_s
                if since_s is not None and unit.now_s < since_s:  # the clock was set back
                    self._listening_since_s = since_s = unit.now_s - LISTEN_S
                if since_s is not None and unit.now_s >= since_s + LISTEN_S:
                    self._rounds.tick(unit)
                    self._releases.tick(unit)
                    self._labels.tick(unit)
                if since_s is not None and unit.now_s >= since_s + ANNOUNCED_AGAIN_S:
                    self._listening_since_s = unit.now_s - LISTEN_S
                    unit.effects.append(AnnounceModel())
            case BrokerConnected():
                self._listening_since_s = unit.now_s
                unit.effects.append(AnnounceModel())
                self._sums.reconnected(unit)
            case BrokerDisconnected():
                self._listening_since_s = None
            case JobEnded(result):
                self._rounds.apply(self._results.take(result, unit), unit)
            case ArtifactServed(size_bytes):
                unit.tx.count("bytes_down", size_bytes)
            case BrokerDropped(count):
                unit.tx.count("broker_dropped", count)
                _log.warning("broker_dropped_messages", count=count)
            case SessionLost(shard):
                # The announcement makes every device repeat an unanswered check-in or report.
                unit.effects.append(AnnounceModel())
                unit.tx.count("broker_sessions_lost")
                _log.warning("broker_session_lost", shard=shard, remedy="devices send again; enable its persistence")
            case Operated(operation, who, answer):
                changed = operate(
                    operation,
                    who,
                    unit,
                    self._rounds,
                    self._tasks,
                    self._creator,
                    self._rollouts,
                    self._releases,
                    self._labels,
                )
                unit.after_commit.append(lambda: answer(changed))
                if changed is True:
                    asked = told(operation)
                    unit.after_commit.append(lambda: _log.info("operated", by=who, **asked))
            case BrokerRefused(reason):
                unit.tx.count("broker_refused")
                _log.error("broker_refused_us", reason=reason)
            case DeviceFlooded(device, lasts_s):
                unit.tx.count("devices_cut_off")
                _log.warning(
                    "device_cut_off", device=device, lasts_s=lasts_s, reason="it sent more than its rate limit"
                )
            case ShutdownRequested():
                pass  # ends the loop


class _NoSigner:
    """The signer of a plain transport, where orders are not signed."""

    public = recovery = ""
    successions: tuple[Succession, ...] = ()

    def sign(self, topic: str, text: str) -> str:  # noqa: ARG002 - signature of the port
        return ""


def _waiting_in(inbox: queue.SimpleQueue[Inbox]) -> Iterator[Inbox]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield inbox.get_nowait()


def _is_work(pending: tuple[int | None, PendingEffect]) -> bool:
    return isinstance(pending[1], WORK)


def _add(unit: UnitOfWork) -> list[tuple[int | None, PendingEffect]]:
    return [(None if isinstance(effect, ANSWERS) else unit.tx.add_effect(effect), effect) for effect in unit.effects]
