"""Carries out pending effects: sends messages to devices, publishes the announcement, submits jobs to the worker.

Each effect may be carried out twice. Nothing is decided here; when a device should come back is decided by
:mod:`nightjar.coordinator.tasks.retry` at the time of sending.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.orders import common_order
from nightjar.coordinator.engine.round_context import RoundContexts
from nightjar.coordinator.learning.downlink import VERSIONS_BACK
from nightjar.coordinator.ports import Clock, Repository, Signer, Transport, Worker
from nightjar.coordinator.records.effects import (
    AnnounceModel,
    ClearRetained,
    EvaluateVersion,
    PendingEffect,
    SendMissing,
    SendSumQuestion,
)
from nightjar.coordinator.records.jobs import (
    AggregationJob,
    AnnouncedVersion,
    EvaluationJob,
    FiguresJob,
    ReportFile,
    SummedReports,
)
from nightjar.coordinator.records.snapshot import Snapshot
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.events import AssignDevice, RejectCheckIn, SendReceipt, StartAggregation
from nightjar.coordinator.rounds.kinds import Averaging, kind_of
from nightjar.coordinator.rounds.pace_steering import Steering, check_in_within_s
from nightjar.coordinator.rounds.round import Phase, Round, seat_deadline_s, seat_version
from nightjar.coordinator.rounds.seats import SeatState, staleness_of
from nightjar.coordinator.tasks.retry import recall, retry_after_s, steering_of
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId, Population, Sha256
from nightjar.wire.messages import Announcement, Canary, Missing, Receipt, Rejection, RejectionReason

ANNOUNCED_FOR_S = 30 * 86400.0
"""Validity of an announcement: longer than any outage of a coordinator."""
CLOCKS_APART_S = 86400.0
"""Allowed clock skew between coordinator and devices; devices also refuse a replayed order by its number."""
LATELY_S = 86400.0
"""A device seen within this time counts towards the population: most are charged once a day."""


class EffectRunner:
    """Carries out effects."""

    def __init__(
        self,
        config: CoordinatorConfig,
        repository: Repository,
        contexts: RoundContexts,
        transport: Transport,
        worker: Worker,
        clock: Clock,
        generator: np.random.Generator,
        signer: Signer,
    ) -> None:
        self._config = config
        self._evaluation = None if config.task.evaluation_text is None else str(config.task.evaluation_text)
        self._signer = signer
        self._signed_s = 0.0
        self._population = Population(config.population)
        self._repository = repository
        self._contexts = contexts
        self._transport = transport
        self._worker = worker
        self._clock = clock
        self._generator = generator
        self._steering: dict[str, tuple[int, Steering]] = {}

    def carry_out(self, effect: PendingEffect, snapshot: Snapshot) -> bool:
        """Carry out an effect.

        Returns:
            Whether the effect is done; a job is done only when its result arrives.
        """
        match effect:
            case StartAggregation(round_number):
                current = snapshot.round(round_number)
                if current is None or current.phase is not Phase.COMMITTING:
                    return True  # averaging took too long, and the round was abandoned
                averaging = kind_of(current).averaging[snapshot.tasks[current.task].settings.kind]
                only_figures = averaging is Averaging.FIGURES
                self._worker.submit(self._figures(current) if only_figures else self._aggregation(current, snapshot))
                return False
            case EvaluateVersion(number):
                return not self._evaluate(number)
            case AssignDevice():
                self._assign(effect, snapshot)
            case RejectCheckIn(device, reason, detail, rounds, task):
                retry_s = self._retry_after_s(snapshot, task=task, reason=reason, rounds_later=rounds)
                self._send(device, Rejection(reason=reason, retry_after_s=retry_s, detail=detail[:500]))
            case SendReceipt():
                self._send_receipt(effect, snapshot)
            case SendMissing(device, round_number, attempt, chunks):
                self._send(device, Missing(round=round_number, attempt=attempt, chunks=chunks))
            case SendSumQuestion(device, question):
                self._transport.publish(topics.down(self._population, device, topics.SUM_QUESTION), question)
            case AnnounceModel():
                self._announce(snapshot)
            case ClearRetained(topic):
                self._transport.publish(topic, b"", retain=True)
        return True

    def _announce(self, snapshot: Snapshot) -> None:
        first, signed_s = self._config.task.name, self._signing_s(snapshot)
        version = snapshot.versions[first]
        with self._repository.transaction() as tx:
            tried = tx.canary_version(first)
        canary = None
        if tried is not None:
            canary = Canary(version=tried.version, manifest=Sha256(tried.manifest), share=self._config.rollout.share)
        steering = self._steering_of_active(snapshot)
        opened = snapshot.rounds.get(first)
        open_to_all = opened is not None and (opened.phase is Phase.SELECTION or kind_of(opened).has_free_seat(opened))
        awaited = open_to_all and first in steering
        message = Announcement(
            version=version.version,
            manifest=Sha256(version.manifest),
            shards=self._config.shards,
            key=self._signer.public,
            recovery=self._signer.recovery,
            successions=self._signer.successions,
            task=first,
            number=snapshot.number,
            signed_s=signed_s,
            not_after_s=signed_s + ANNOUNCED_FOR_S,
            canary=canary,
            check_in_within_s=check_in_within_s(steering[first]) if awaited else None,
            recall=recall(snapshot.tasks, snapshot.rounds, steering),
        )
        self._publish(topics.announce(self._population), message, retain=True)

    def _signing_s(self, snapshot: Snapshot) -> float:
        """The signing time, which never goes backwards: devices without a clock rely on it.

        Numbers that were drawn while the clock was far ahead do not count. Devices rank orders by them all the same.
        """
        now_s = self._clock.now_s()
        drawn_s = snapshot.number / 1000
        earlier = [each for each in (self._signed_s, drawn_s) if each < now_s + CLOCKS_APART_S]
        self._signed_s = max([now_s, *earlier])
        return self._signed_s

    def _figures(self, current: Round) -> FiguresJob:
        with self._repository.transaction() as tx:
            reports = tx.reports(current.number)
        used = [each for each in reports if each.device not in current.left_out]
        return FiguresJob(current.number, tuple(ReportFile(r.device, r.attempt, r.num_examples) for r in used))

    def _aggregation(self, current: Round, snapshot: Snapshot) -> AggregationJob:
        settings, version = snapshot.tasks[current.task].settings, snapshot.bases[current.number]
        task = snapshot.tasks[current.task].state
        summed = snapshot.sums.get(current.number)
        with self._repository.transaction() as tx:
            reports = tx.reports(current.number)
            version = tx.version(version.version) or version  # its optimizer state may have been dropped meanwhile
            newest = tx.versions(VERSIONS_BACK + 1, task=current.task)
            earlier = [each for each in newest if each != version and each.pruned_s is None]
            found = tx.federated(version.version)
        announced = snapshot.versions[current.task]  # keyboards have it, however old it is
        earlier = [each for each in (announced,) if each not in (version, *earlier)] + earlier[-VERSIONS_BACK:]
        return AggregationJob(
            round=current.number,
            manifest=version.manifest,
            reports=tuple(
                ReportFile(r.device, r.attempt, r.num_examples, staleness_of(current.seats[r.device]))
                for r in reports
                if current.seats[r.device].state is SeatState.REPORTED  # skips reports that proved unreadable
                and r.device not in current.left_out
            ),
            minimum=settings.minimum,
            staleness=settings.staleness,
            codec=settings.codec.choice(),
            strategy=settings.strategy.choice(),
            optimizer_state=version.optimizer_state,
            clip_norm=version.clip_norm,
            evaluation=self._evaluation,
            downlink=settings.downlink,
            bases=tuple(record.manifest for record in reversed(earlier)),
            announced=None
            if announced.version == version.version
            else AnnouncedVersion(announced.version, announced.manifest, found),
            seed=self._config.seed,
            committed=task.committed,
            noise=task.noise,
            step=len(task.noised),
            summed=None if summed is None or summed.plan is None else SummedReports(summed.order, summed.plan),
            without_figures=current.without_figures,
        )

    def _evaluate(self, number: int) -> bool:
        with self._repository.transaction() as tx:
            record = tx.version(number)
        if self._evaluation is None or record is None or record.pruned_s is not None:
            return False
        self._worker.submit(EvaluationJob(number, record.manifest, self._evaluation))
        return True

    def _assign(self, effect: AssignDevice, snapshot: Snapshot) -> None:
        current = snapshot.round_of_seat(effect.round, effect.device)
        if current is None or not kind_of(current).awaits_report(current, effect.device, effect.attempt, effect.round):
            return  # left over from before a restart
        seat = current.seats[effect.device]
        remaining_s = seat_deadline_s(current, seat) - self._clock.now_s()
        base = self._base_of(seat_version(current, seat), current, snapshot)
        if remaining_s <= 0 or base is None:
            return
        record, summed = snapshot.tasks[current.task], snapshot.sums.get(current.number)
        if kind_of(current).is_summed and summed is None:
            return
        context = self._contexts.of_round(record, base, current)
        order = None if summed is None else summed.order
        signed_s = self._signing_s(snapshot)
        self._send(
            effect.device,
            replace(
                common_order(current, base, record, context, self._config.task.name, order),
                round=effect.round,
                attempt=effect.attempt,
                report_deadline_s=remaining_s,
                number=snapshot.number,
                signed_s=signed_s,
                not_after_s=signed_s + remaining_s + CLOCKS_APART_S,
            ),
        )

    def _base_of(self, version: int, current: Round, snapshot: Snapshot) -> VersionRecord | None:
        base = snapshot.bases[current.number]
        if version == base.version:
            return base
        with self._repository.transaction() as tx:
            return tx.version(version)

    def _send_receipt(self, effect: SendReceipt, snapshot: Snapshot) -> None:
        receipt = Receipt(
            round=effect.round,
            attempt=effect.attempt,
            verdict=effect.verdict,
            code=effect.code,
            detail=effect.detail[:500],
            retry_after_s=self._retry_after_s(snapshot),
        )
        self._send(effect.device, receipt)

    def _send(self, device: DeviceId, message: messages.Message) -> None:
        self._publish(topics.down(self._population, device, messages.KINDS[type(message)]), message)

    def _publish(self, topic: str, message: messages.Message, *, retain: bool = False) -> None:
        payload = messages.encode(message, lambda text: self._signer.sign(topic, text))
        self._transport.publish(topic, payload, retain=retain)

    def _retry_after_s(
        self, snapshot: Snapshot, *, task: str = "", reason: RejectionReason | None = None, rounds_later: int = 0
    ) -> float:
        return retry_after_s(
            snapshot.tasks,
            snapshot.rounds,
            self._steering_of_active(snapshot),
            self._clock.now_s(),
            self._generator,
            task=task,
            reason=reason,
            rounds_later=rounds_later,
        )

    def _steering_of_active(self, snapshot: Snapshot) -> dict[str, Steering]:
        """Steering of each active task; read once per round, because a round sends thousands of answers."""
        active = [record for record in snapshot.tasks.values() if record.state.status is TaskStatus.ACTIVE]
        for record in active:
            current = snapshot.rounds.get(record.name)
            number = 0 if current is None else current.number
            if self._steering.get(record.name, (-1,))[0] != number:
                now_s = self._clock.now_s()
                with self._repository.transaction() as tx:
                    population, rhythm = tx.devices_since(now_s - LATELY_S), tx.rhythm()
                self._steering[record.name] = (number, steering_of(record.settings, population, rhythm, now_s))
        return {record.name: self._steering[record.name][1] for record in active}
