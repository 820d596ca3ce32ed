"""Joins the pure core to the world: one thread, one queue.

Theory of operation
===================

Events come out of the queue in batches: whatever has come while the batch before was dealt with, up to a bound. In ONE
database transaction the round's next state, the accepted reports with their bytes and the effects that follow are
written. Only after the commit are the effects carried out, and an effect's row is removed with
the next transaction. The MQTT messages behind the events are acknowledged last. A quiet coordinator has batches of one;
in a burst hundreds of reports share the cost of making things durable. An event that fails spoils its batch: nothing of
it is written, and each of its events is handled again in a batch of its own. So wherever the process is killed:

- before the commit nothing happened; the broker, or the device that got no receipt, sends the message again;
- after the commit the effects are pending and are carried out at the next start, some of them a second time. Answers
  (:data:`ANSWERS`) are not kept: a device that gets none asks again.

A second time does no harm: a device ignores an assignment or a receipt that came before, an aggregation that is
already committed is not committed again, and a report that comes again meets its own seat and is a DUPLICATE. A
message that was handed to the MQTT client and died with the process heals the same way, because devices repeat their
check-in or their report until they are answered.

What is kept in memory is only what the database holds as well, and changes only after a commit. So when the disk is
full or the database locked (UnavailableError), the same batch is tried again until it works; meanwhile nothing is
acknowledged, and the broker keeps what comes. If it does not work for long, the process ends.

A message that cannot be read is counted. One whose handling raises something unforeseen is logged, counted and
acknowledged, and changes nothing: it must not come again for ever.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import structlog

from coordinator.config import CoordinatorConfig
from coordinator.engine.administration import operate
from coordinator.engine.effect_runner import EffectRunner
from coordinator.engine.effects import AnnounceModel, ClearRetained, EvaluateVersion, PendingEffect, SendMissing
from coordinator.engine.inbox import (
    ArtifactServed,
    BrokerConnected,
    BrokerDisconnected,
    BrokerDropped,
    BrokerRefused,
    Inbox,
    JobEnded,
    MessageArrived,
    Operated,
    SessionLost,
    ShutdownRequested,
    Ticked,
)
from coordinator.engine.job_results import JobResults
from coordinator.engine.message_handler import MessageHandler
from coordinator.engine.rollout_service import RolloutService
from coordinator.engine.round_context import RoundContexts
from coordinator.engine.task_creation import TaskCreator, take_stock
from coordinator.engine.unit_of_work import UnitOfWork
from coordinator.ports import (
    BlobStore,
    Clock,
    Repository,
    Signer,
    Transaction,
    Transport,
    Worker,
)
from coordinator.rounds.events import RejectCheckIn, SendReceipt, StartAggregation
from host.retrying import GIVE_UP_AFTER_S, STORE_AGAIN, keep_trying
from wire.errors import UnavailableError
from wire.messages import Succession

TICK_S = 0.25
"""How often time is looked at; deadlines are in seconds."""
LISTEN_S = 2.0
"""After the broker is reached again no deadline passes for this long: reports may be waiting in its queue."""
ANNOUNCED_AGAIN_S = 86400.0
"""What is announced is signed for a month."""
ANSWERS = (SendReceipt, SendMissing, RejectCheckIn, ClearRetained)
"""Effects that are asked for again until they are done: a report, a query or a check-in is repeated until it is
answered, and what is retained comes with each subscription. Keeping them in the database until they are sent would cost
a burst a fifth of its time."""
WORK = (StartAggregation, EvaluateVersion)
"""Effects that no device waits for: they come after the messages that one does wait for."""
MOST_EVENTS = 256
"""Of one batch: more would save little, and the first of them would wait longer for its receipt."""
MOST_BYTES = 8 * 2**20
"""Of the messages of one batch: bounds what is written at once, also when all of them are large chunks."""

_log = structlog.get_logger("coordinator")


class Driver:
    """The coordinator without its sockets. Only ``post`` may be called from other threads.

    Args:
        config: the whole configuration.
        repository: the database, holding at least one version of the configuration's task.
        artifacts: programs, vocabularies, weights, manifests: what anybody may fetch.
        transport: to the devices.
        worker: averages and measures.
        clock: wall-clock time.
        generator: jitter of retry windows.
        signer: signs what devices obey; None where nobody checks.
        turned: called some times a second while the loop turns, by which a watchdog knows that it does.

    Raises:
        LocalProtocolError: the database holds no such version.
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
        self._maker = TaskCreator(config, artifacts)
        self._releases = RolloutService(config)
        self._results = JobResults(artifacts, self._releases)
        contexts = RoundContexts(artifacts, config.rollout.share)
        self._intake = MessageHandler(config.population, contexts)
        self._execution = EffectRunner(config, repository, contexts, transport, worker, clock, generator, signer)

    def post(self, event: Inbox) -> None:
        """Queue an event; may be called from any thread."""
        if isinstance(event, ShutdownRequested):
            self._stopping.set()
        # A cohort's downloads are counted with the next tick: a transaction for each would slow down the next download.
        (self._served if isinstance(event, ArtifactServed) else self._inbox).put(event)

    @property
    def trouble(self) -> str:
        """Why nothing can be stored at the moment; empty if all is well. Any thread."""
        return self._trouble

    @property
    def not_enforced(self) -> list[str]:
        """What the broker should have refused and did not, since the start. Any thread."""
        return sorted(self._intake.not_enforced)

    def run(self) -> None:
        """Handle events until Stopped comes.

        Raises:
            UnavailableError: the disk or the database did not work for long.
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
        """What waits in the queue, up to the bounds."""
        batch, size_bytes = [], 0
        for event in itertools.chain([first], _waiting_in(self._inbox)):
            batch.append(event)
            if isinstance(event, MessageArrived):
                size_bytes += len(event.payload)
            if len(batch) >= MOST_EVENTS or size_bytes >= MOST_BYTES:
                break
        return batch

    def _patiently(self, steps: Sequence[Callable[[], None]]) -> None:
        """Do one step after the other, and go on trying while the disk or the database refuses."""
        began_s, refusals = self._clock.now_s(), 0

        def refused(error: UnavailableError, _wait_s: float) -> None:
            nonlocal refusals
            refusals += 1
            if not self._trouble:
                _log.error("not_stored", error=str(error), again="until it works; said once")
            self._trouble = str(error)
            self._turned()

        for step in steps:
            keep_trying(step, self._stopping.wait, refused, STORE_AGAIN, GIVE_UP_AFTER_S)
        if refusals:
            _log.info("stored_again", after_s=round(self._clock.now_s() - began_s, 1), failed_tries=refusals)
            self._trouble = ""

    def resume(self) -> None:
        """Carry out what a former process left, and see to it that there is a round; without patience.

        Raises:
            UnavailableError: the disk or the database is broken.
        """
        for step in self._resumption():
            step()

    def _resumption(self) -> tuple[Callable[[], None], ...]:
        return self._take_up, self._follow_up

    def _take_up(self) -> None:
        with self._repository.transaction() as tx:
            unit = self._begin(tx)
            left = unit.take_up(tx.begin_effects())
            for state in list(unit.snapshot.rounds.values()):
                unit.base_version(state)
            for name in [name for name in unit.snapshot.tasks if name not in unit.snapshot.rounds]:
                unit.open_next(name)
            added = _add(unit)
        self._adopt(unit)
        self._pending.extend([*left, *added])

    def handle(self, *batch: Inbox) -> None:
        """A batch of events, from the queue to its last effect; without patience.

        Raises:
            UnavailableError: the disk or the database is broken.
        """
        for step in self.steps(batch):
            step()

    def steps(self, batch: Sequence[Inbox]) -> tuple[Callable[[], None], ...]:
        """What is to be done with a batch, in this order; a step that raises UnavailableError may be tried again."""
        return (lambda: self._take(batch)), self._follow_up

    def _take(self, batch: Sequence[Inbox]) -> None:
        """Make durable what the events change, all of it or nothing."""
        try:
            with self._repository.transaction() as tx:
                unit = self._begin(tx)
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
            # A defect of ours must not become a message that the broker sends for ever.
            _log.exception("event_failed", kind=type(batch[0]).__name__)
            with self._repository.transaction() as tx:
                tx.count("events_failed")
        else:
            self._done.clear()
            self._adopt(unit)
            self._pending.extend(sorted(added, key=_is_work))
        self._unacknowledged.extend(event for event in batch if isinstance(event, MessageArrived))

    def _begin(self, tx: Transaction) -> UnitOfWork:
        name, seed = self._config.task.name, self._config.seed
        return UnitOfWork(tx, self._clock.now_s(), self._snapshot, name, seed, self._releases.note_trial)

    def _adopt(self, unit: UnitOfWork) -> None:
        self._snapshot = unit.snapshot
        for call in unit.after_commit:
            call()

    def _follow_up(self) -> None:
        """Carry out what follows from what is durable, and let go of the messages."""
        while self._pending and not _is_work(self._pending[0]):
            self._carry_out_next()
        for message in self._unacknowledged:
            message.acknowledge()
        self._unacknowledged.clear()
        while self._pending:
            self._carry_out_next()

    def _carry_out_next(self) -> None:
        number, effect = self._pending[0]
        done = self._execution.carry_out(effect, self._snapshot)
        if number is not None and done:
            self._done.append(number)
        elif number is not None:
            self._results.expect(effect, number)
        self._pending.popleft()

    def _take_event(self, event: Inbox, unit: UnitOfWork) -> None:
        match event:
            case MessageArrived():
                self._intake.take(event, unit)
            case Ticked():
                since_s = self._listening_since_s
                if since_s is not None and unit.now_s >= since_s + LISTEN_S:
                    unit.tick()
                if since_s is not None and unit.now_s >= since_s + ANNOUNCED_AGAIN_S:
                    self._listening_since_s = unit.now_s - LISTEN_S
                    unit.effects.append(AnnounceModel())
            case BrokerConnected():
                self._listening_since_s = unit.now_s
                unit.effects.append(AnnounceModel())
            case BrokerDisconnected():
                self._listening_since_s = None
            case JobEnded(result):
                self._results.take(result, unit)
            case ArtifactServed(size_bytes):
                unit.tx.count("bytes_down", size_bytes)
            case BrokerDropped(count):
                unit.tx.count("broker_dropped", count)
                _log.warning("broker_dropped_messages", count=count)
            case SessionLost(shard):
                # The announcement makes every device say again what was not answered: its check-in, its report.
                unit.effects.append(AnnounceModel())
                unit.tx.count("broker_sessions_lost")
                _log.warning("broker_session_lost", shard=shard, remedy="devices send again; enable its persistence")
            case Operated(operation, who, answer):
                changed = operate(operation, who, unit, self._maker, self._releases)
                unit.after_commit.append(lambda: answer(changed))
                if changed is True:
                    asked = msgspec.to_builtins(operation)
                    unit.after_commit.append(lambda: _log.info("operated", by=who, operation=asked))
            case BrokerRefused(reason):
                unit.tx.count("broker_refused")
                _log.error("broker_refused_us", reason=reason)
            case ShutdownRequested():
                pass  # ends the loop


class _NoSigner:
    """Where nobody checks, nothing need be signed."""

    public = recovery = ""
    successions: tuple[Succession, ...] = ()

    def sign(self, topic: str, text: str) -> str:  # noqa: ARG002 - a port's
        return ""


def _waiting_in(inbox: queue.SimpleQueue[Inbox]) -> Iterator[Inbox]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield inbox.get_nowait()


def _is_work(pending: tuple[int | None, PendingEffect]) -> bool:
    return isinstance(pending[1], WORK)


def _add(unit: UnitOfWork) -> list[tuple[int | None, PendingEffect]]:
    return [(None if isinstance(effect, ANSWERS) else unit.tx.add_effect(effect), effect) for effect in unit.effects]
