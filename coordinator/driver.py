"""Joins the pure core to the world: one thread, one queue.

Theory of operation
===================

An event comes out of the queue. In ONE database transaction the round's next state, the accepted report and the effects
that follow are written; a report's bytes are on disk before that. Only after the commit are the effects carried
out, and an effect's row is removed with the next transaction. The MQTT message behind the event is acknowledged last.
So wherever the process is killed:

- before the commit nothing happened; the broker, or the device that got no receipt, sends the message again;
- after the commit the effects are pending and are carried out at the next start, some of them a second time.

A second time does no harm: a device ignores an assignment or a receipt that came before, an aggregation that is
already committed is not committed again, and a report that comes again meets its own seat and is a DUPLICATE. A
message that was handed to the MQTT client and died with the process heals the same way, because devices repeat their
check-in or their report until they are answered.

What is kept in memory is only what the database holds as well. A broken disk therefore ends the process
(UnavailableError) rather than let both drift apart.
"""

from __future__ import annotations

import queue

import msgspec
import numpy as np
import structlog

from coordinator.config import CoordinatorConfig
from coordinator.core.events import AggregationFailed, AggregationFinished, ClockTicked, StartAggregation
from coordinator.core.round import Phase, Round
from coordinator.effects import AnnounceModel, EvaluateVersion, PendingEffect
from coordinator.execution import Execution
from coordinator.inbox import (
    ArtifactServed,
    BrokerDropped,
    Connected,
    Disconnected,
    Inbox,
    JobEnded,
    MessageArrived,
    Stopped,
    Ticked,
)
from coordinator.intake import Intake
from coordinator.jobs import AggregationDone, EvaluationDone, JobFailed, Metrics, Result
from coordinator.ports import BlobStore, Clock, Repository, Transport, VersionRecord, View, Worker
from coordinator.turn import Turn
from models.manifest import Artifact, Manifest
from wire.errors import LocalProtocolError, UnavailableError

TICK_S = 0.25
"""How often time is looked at; deadlines are in seconds."""
LISTEN_S = 2.0
"""After the broker is reached again no deadline passes for this long: reports may be waiting in its queue."""

_log = structlog.get_logger("coordinator")


class Driver:
    """The coordinator without its sockets. Only ``post`` may be called from other threads.

    Args:
        config: the whole configuration.
        repository: the database, holding at least version 0.
        artifacts: programs, vocabularies, weights, manifests: what anybody may fetch.
        private: reports and optimizer states: what nobody may fetch.
        transport: to the devices.
        worker: averages and measures.
        clock: wall-clock time.
        generator: jitter of retry windows.

    Raises:
        LocalProtocolError: the database holds no version.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        repository: Repository,
        artifacts: BlobStore,
        private: BlobStore,
        transport: Transport,
        worker: Worker,
        clock: Clock,
        generator: np.random.Generator,
    ) -> None:
        self._config = config
        self._repository = repository
        self._artifacts = artifacts
        self._clock = clock
        self._inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self._done: list[int] = []
        self._jobs: dict[PendingEffect, int] = {}
        self._listening_since_s: float | None = None
        with repository.transaction() as tx:
            version = tx.current_version()
            self._round: Round | None = tx.open_round()
        if version is None:
            msg = "the database holds no model version; import one first"
            raise LocalProtocolError(msg)
        self._version: VersionRecord = version
        self._manifest = Manifest.decode(artifacts.get(version.manifest))
        self._intake = Intake(config.population, config.task, self._manifest, private)
        self._execution = Execution(config, repository, private, transport, worker, clock, generator)

    def post(self, event: Inbox) -> None:
        """Queue an event; may be called from any thread."""
        self._inbox.put(event)

    def run(self) -> None:
        """Handle events until Stopped comes.

        Raises:
            UnavailableError: the disk or the database is broken.
        """
        self.resume()
        next_tick_s = self._clock.now_s()
        while True:
            now_s = self._clock.now_s()
            if not next_tick_s - 2 * TICK_S < now_s < next_tick_s:  # due, or the clock was set back
                next_tick_s = now_s + TICK_S
                self.handle(Ticked())
            try:
                event = self._inbox.get(timeout=max(next_tick_s - self._clock.now_s(), 0.0))
            except queue.Empty:
                continue
            if isinstance(event, Stopped):
                return
            self.handle(event)

    def resume(self) -> None:
        """Carry out what a former process left, and see to it that there is a round.

        Raises:
            UnavailableError: as run().
        """
        with self._repository.transaction() as tx:
            left = tx.effects()
            turn = self._begin(tx)
            if turn.round is None:
                turn.open_next()
            added = _add(turn)
        self._adopt(turn)
        self._carry_out(left + added)

    def handle(self, event: Inbox) -> None:
        """One event, from the queue to its last effect.

        Raises:
            UnavailableError: as run().
        """
        try:
            with self._repository.transaction() as tx:
                turn = self._begin(tx)
                tx.remove_effects(self._done)
                self._dispatch(event, turn)
                added = _add(turn)
        except UnavailableError:
            raise
        except Exception:
            # A defect of ours must not become a message that kills every process that the broker sends it to.
            _log.exception("event failed", kind=type(event).__name__)
            with self._repository.transaction() as tx:
                tx.count("malformed_messages")
        else:
            self._done.clear()
            self._adopt(turn)
            self._carry_out(added)
        if isinstance(event, MessageArrived):
            event.acknowledge()

    def _begin(self, tx: View) -> Turn:
        return Turn(self._config, tx, self._clock.now_s(), self._round, self._version)

    def _adopt(self, turn: Turn) -> None:
        if turn.version.manifest != self._version.manifest:
            self._manifest = Manifest.decode(self._artifacts.get(turn.version.manifest))
        self._round, self._version = turn.round, turn.version
        for call in turn.after_commit:
            call()

    def _carry_out(self, effects: list[tuple[int, PendingEffect]]) -> None:
        for number, effect in effects:
            if self._execution.carry_out(effect, self._round, self._version):
                self._done.append(number)
            else:
                self._jobs[effect] = number

    def _dispatch(self, event: Inbox, turn: Turn) -> None:
        match event:
            case MessageArrived():
                self._intake.take(event, turn)
            case Ticked():
                since_s = self._listening_since_s
                if since_s is not None and turn.now_s >= since_s + LISTEN_S:
                    turn.step(ClockTicked(turn.now_s))
            case Connected():
                self._listening_since_s = turn.now_s
                turn.effects.append(AnnounceModel())
            case Disconnected():
                self._listening_since_s = None
            case JobEnded(result):
                self._end_job(result, turn)
            case ArtifactServed(size_bytes):
                turn.tx.count("bytes_down", size_bytes)
            case BrokerDropped(count):
                turn.tx.count("broker_dropped", count)
                _log.warning("broker_dropped_messages", count=count)
            case Stopped():
                pass

    def _end_job(self, result: Result, turn: Turn) -> None:
        match result:
            case AggregationDone():
                self._forget_job(turn, StartAggregation(result.round))
                if self._commits(turn, result.round):
                    self._commit(turn, result)
            case EvaluationDone(version, metrics):
                self._forget_job(turn, EvaluateVersion(version))
                turn.tx.set_metrics(version, metrics)
                _tell(turn, version, metrics)
            case JobFailed(reason, round_number, version_number):
                _log.warning("job_failed", round=round_number, version=version_number, reason=reason)
                if version_number is not None:
                    self._forget_job(turn, EvaluateVersion(version_number))
                if round_number is not None:
                    self._forget_job(turn, StartAggregation(round_number))
                    if self._commits(turn, round_number):
                        turn.step(AggregationFailed(reason, turn.now_s))

    def _commits(self, turn: Turn, number: int) -> bool:
        return turn.round is not None and turn.round.number == number and turn.round.phase is Phase.COMMITTING

    def _forget_job(self, turn: Turn, effect: PendingEffect) -> None:
        number = self._jobs.pop(effect, None)
        if number is not None:
            turn.tx.remove_effects([number])

    def _commit(self, turn: Turn, done: AggregationDone) -> None:
        number = turn.version.version + 1
        weights = Artifact(done.weights, done.size_bytes)
        manifest = msgspec.structs.replace(self._manifest, version=number, weights=weights)
        outdated = turn.version.optimizer_state
        turn.version = VersionRecord(
            version=number,
            manifest=self._artifacts.put(manifest.encode()),
            round=done.round,
            optimizer_state=done.optimizer_state,
            created_s=turn.now_s,
            metrics=done.metrics,
        )
        turn.tx.add_version(turn.version)
        turn.effects.append(AnnounceModel())
        if outdated is not None and outdated != done.optimizer_state:
            turn.forget([outdated])
        if turn.round is not None and turn.round.started_at_s is not None:
            self._execution.usual_reporting_s = turn.now_s - turn.round.started_at_s
        if done.metrics is not None:
            _tell(turn, number, done.metrics)
        turn.step(AggregationFinished(number, turn.now_s))


def _add(turn: Turn) -> list[tuple[int, PendingEffect]]:
    return [(turn.tx.add_effect(effect), effect) for effect in turn.effects]


def _tell(turn: Turn, version: int, metrics: Metrics) -> None:
    figures = {"top1": round(metrics.top1, 4), "top3": round(metrics.top3, 4), "loss": round(metrics.loss, 4)}
    turn.after_commit.append(lambda: _log.info("version_measured", version=version, **figures))
