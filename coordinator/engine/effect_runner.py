"""Carries out pending effects: sends messages to devices, publishes the announcement, submits jobs to the worker.

Each effect may be carried out twice. The only decision made here is when a device should come back, because that
depends on the time of sending.
"""

from __future__ import annotations

import numpy as np

from coordinator.config import CoordinatorConfig
from coordinator.engine.effects import AnnounceModel, ClearRetained, EvaluateVersion, PendingEffect, SendMissing
from coordinator.engine.jobs import AggregationJob, EvaluationJob, EvaluationText, FiguresJob, ReportFile
from coordinator.engine.round_context import RoundContexts
from coordinator.engine.unit_of_work import Snapshot
from coordinator.learning.downlink import VERSIONS_BACK
from coordinator.ports import Clock, Repository, Signer, TaskRecord, Transport, VersionRecord, Worker
from coordinator.rounds.events import AssignDevice, RejectCheckIn, SendReceipt, StartAggregation
from coordinator.rounds.pace_steering import Steering, check_in_within_s, loads, opens_in_s, retry_after_s
from coordinator.rounds.round import Phase, Round, awaits_report
from coordinator.rounds.seats import SeatState
from coordinator.tasks.schedule import wait_s
from coordinator.tasks.task import TaskStatus
from wire import messages, topics
from wire.identifiers import DeviceId, Population, Sha256
from wire.messages import Announcement, Assignment, Canary, Missing, Receipt, Rejection, RejectionReason, Work

REFUSED_RETRY_S = 900.0
"""A device that lacks text or a newer agent is unlikely to have it sooner (Android also retries after 15 minutes)."""
_NOT_SOON = frozenset({RejectionReason.OUTDATED_AGENT, RejectionReason.TOO_FEW_EXAMPLES, RejectionReason.BLOCKED})
NO_TASK_RETRY_S = 3600.0
"""Retry time when all tasks are over: a new task is hours away at best. A paused task may resume at any moment."""
ANNOUNCED_FOR_S = 30 * 86400.0
"""Validity of an announcement: longer than any outage of a coordinator."""
CLOCKS_APART_S = 86400.0
"""Allowed clock skew between coordinator and devices; devices also refuse a replayed order by its number."""
LATELY_S = 86400.0
"""A device seen within this time counts towards the population: most are charged once a day."""


class EffectRunner:
    """Carries out effects.

    Args:
        config: the whole configuration.
        repository: database of the reports and devices.
        contexts: provides the base version, codec and requirements of a round.
        transport: sends messages to the devices.
        worker: averages reports and measures versions.
        clock: wall-clock time.
        generator: source of the jitter of retry times.
        signer: signs messages to devices.
    """

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
        self._seed = config.seed
        self._shards = config.shards
        self._first = config.task.name
        self._text = config.task.evaluation_text
        self._share = config.rollout.share
        self._signer = signer
        self._signed_s = 0.0
        self._population = Population(config.population)
        self._repository = repository
        self._contexts = contexts
        self._transport = transport
        self._worker = worker
        self._clock = clock
        self._generator = generator
        self._looked_up: dict[str, tuple[int, Steering, float]] = {}
        self._snapshot: Snapshot | None = None
        self._found: dict[tuple[str, int], tuple[float, Steering, bool] | None] = {}

    def carry_out(self, effect: PendingEffect, snapshot: Snapshot) -> bool:
        """Carry out an effect.

        Args:
            effect: the effect.
            snapshot: open tasks, rounds and versions.

        Returns:
            Whether the effect is done; a job is done only when its result arrives.
        """
        match effect:
            case StartAggregation(round_number):
                current = snapshot.round(round_number)
                if current is None or current.phase is not Phase.COMMITTING:
                    return True  # averaging took too long, and the round was abandoned
                only_figures = current.trial or snapshot.tasks[current.task].settings.kind is Work.EVALUATE
                self._worker.submit(self._figures(current) if only_figures else self._aggregation(current, snapshot))
                return False
            case EvaluateVersion(number):
                return not self._evaluate(number)
            case AssignDevice():
                self._assign(effect, snapshot)
            case RejectCheckIn(device, reason, detail, rounds, task):
                retry_s = self._retry_after_s(snapshot, task, reason, rounds)
                self._send(device, Rejection(reason=reason, retry_after_s=retry_s, detail=detail[:500]))
            case SendReceipt():
                self._send_receipt(effect, snapshot)
            case SendMissing(device, round_number, attempt, chunks):
                self._send(device, Missing(round=round_number, attempt=attempt, chunks=chunks))
            case AnnounceModel():
                self._announce(snapshot)
            case ClearRetained(topic):
                self._transport.publish(topic, b"", retain=True)
        return True

    def _announce(self, snapshot: Snapshot) -> None:
        version = snapshot.versions[self._first]
        with self._repository.transaction() as tx:
            tried = tx.canary_version(self._first)
        canary = None
        if tried is not None:
            canary = Canary(version=tried.version, manifest=Sha256(tried.manifest), share=self._share)
        signed_s = self._signing_s(snapshot)
        message = Announcement(
            version=version.version,
            manifest=Sha256(version.manifest),
            shards=self._shards,
            key=self._signer.public,
            recovery=self._signer.recovery,
            successions=self._signer.successions,
            task=self._first,
            number=snapshot.number,
            signed_s=signed_s,
            not_after_s=signed_s + ANNOUNCED_FOR_S,
            canary=canary,
            check_in_within_s=self._opening_s(snapshot),
            recall=self._recall(snapshot),
        )
        self._publish(topics.announce(self._population), message, retain=True)

    def _signing_s(self, snapshot: Snapshot) -> float:
        """The signing time, which never goes backwards: devices without a clock rely on it."""
        self._signed_s = max(self._signed_s, self._clock.now_s(), snapshot.number / 1000)
        return self._signed_s

    def _opening_s(self, snapshot: Snapshot) -> float | None:
        """Time over which all devices should spread their check-ins; None unless the open round needs all of them."""
        current, record = snapshot.rounds.get(self._first), snapshot.tasks.get(self._first)
        if current is None or record is None or current.phase is not Phase.SELECTION:
            return None
        return check_in_within_s(self._steering(record, current.number, self._clock.now_s())[0])

    def _recall(self, snapshot: Snapshot) -> int:
        """When the newest active task became active, if it needs all devices; it tells one recall from another."""
        active = [each for each in snapshot.tasks.values() if each.state.status is TaskStatus.ACTIVE]
        newest = max(active, key=lambda record: record.state.since_s, default=None)
        if newest is None or newest.name not in snapshot.rounds:
            return 0
        number = snapshot.rounds[newest.name].number
        needed = check_in_within_s(self._steering(newest, number, self._clock.now_s())[0]) is not None
        return int(newest.state.since_s * 1000) if needed else 0

    def _figures(self, current: Round) -> FiguresJob:
        with self._repository.transaction() as tx:
            reports = tx.reports(current.number)
        return FiguresJob(current.number, tuple(ReportFile(r.device, r.attempt, r.num_examples) for r in reports))

    def _aggregation(self, current: Round, snapshot: Snapshot) -> AggregationJob:
        settings, version = snapshot.tasks[current.task].settings, snapshot.versions[current.task]
        with self._repository.transaction() as tx:
            reports = tx.reports(current.number)
            earlier = tx.versions(VERSIONS_BACK + 1, task=current.task)[:-1]
        return AggregationJob(
            round=current.number,
            manifest=version.manifest,
            reports=tuple(
                ReportFile(r.device, r.attempt, r.num_examples)
                for r in reports
                if current.seats[r.device].state is SeatState.REPORTED  # skips reports that proved unreadable
            ),
            minimum=settings.minimum,
            codec=settings.codec.choice(),
            strategy=settings.strategy.choice(),
            optimizer_state=version.optimizer_state,
            clip_norm=version.clip_norm,
            evaluation=self._evaluation(),
            downlink=settings.downlink,
            bases=tuple(record.manifest for record in reversed(earlier)),
            seed=self._seed,
            committed=snapshot.tasks[current.task].state.committed,
        )

    def _evaluate(self, number: int) -> bool:
        evaluation = self._evaluation()
        with self._repository.transaction() as tx:
            record = tx.version(number)
        if evaluation is None or record is None:
            return False
        self._worker.submit(EvaluationJob(number, record.manifest, evaluation))
        return True

    def _evaluation(self) -> EvaluationText | None:
        return None if self._text is None else EvaluationText(str(self._text))

    def _assign(self, effect: AssignDevice, snapshot: Snapshot) -> None:
        current = snapshot.round(effect.round)
        if current is None:
            return  # left over from before a restart
        remaining_s = current.deadline_s - self._clock.now_s()
        if not awaits_report(current, effect.device, effect.attempt) or remaining_s <= 0:
            return
        record = snapshot.tasks[current.task]
        context = self._contexts.of_round(record, self._base_version(current, snapshot), current)
        signed_s = self._signing_s(snapshot)
        self._send(
            effect.device,
            Assignment(
                task=current.task,
                round=effect.round,
                attempt=effect.attempt,
                version=current.base_version,
                manifest=Sha256(context.version.manifest),
                codec=record.settings.codec.choice(context.manifest.mask),
                plan=record.settings.plan.plan(record.settings.strategy.name),
                report_deadline_s=remaining_s,
                work=context.gate.kind,
                minimum=record.settings.minimum,
                number=snapshot.number,
                signed_s=signed_s,
                not_after_s=signed_s + remaining_s + CLOCKS_APART_S,
            ),
        )

    def _send_receipt(self, effect: SendReceipt, snapshot: Snapshot) -> None:
        receipt = Receipt(
            round=effect.round,
            attempt=effect.attempt,
            verdict=effect.verdict,
            code=effect.code,
            detail=effect.detail[:500],
            retry_after_s=self._retry_after_s(snapshot, "", None),
        )
        self._send(effect.device, receipt)

    def _send(self, device: DeviceId, message: messages.Message) -> None:
        self._publish(topics.down(self._population, device, messages.KINDS[type(message)]), message)

    def _publish(self, topic: str, message: messages.Message, *, retain: bool = False) -> None:
        payload = messages.encode(message, lambda text: self._signer.sign(topic, text))
        self._transport.publish(topic, payload, retain=retain)

    def _base_version(self, current: Round, snapshot: Snapshot) -> VersionRecord:
        newest = snapshot.versions.get(current.task)
        if newest is not None and newest.version == current.base_version:
            return newest
        return snapshot.bases[current.base_version]

    def _retry_after_s(self, snapshot: Snapshot, task: str, reason: RejectionReason | None, rounds: int = 0) -> float:
        """Seconds until a device should come back: for the named task if it is active, else for the first to open."""
        soonest = self._soonest(snapshot, task, rounds)
        if soonest is None:
            paused = any(record.state.status is TaskStatus.PAUSED for record in snapshot.tasks.values())
            return REFUSED_RETRY_S if paused else NO_TASK_RETRY_S
        expected_s, steering, named = soonest
        not_for_it = named and reason is RejectionReason.NO_TASK and task in snapshot.rounds
        if not_for_it or reason in _NOT_SOON:
            expected_s = max(expected_s, REFUSED_RETRY_S)
        return retry_after_s(steering, expected_s, self._clock.now_s(), self._generator)

    def _soonest(self, snapshot: Snapshot, task: str, rounds: int) -> tuple[float, Steering, bool] | None:
        """Wait, steering, and whether the named task is active, for the first task to open; None if no task is active.

        Cached for one batch (each batch has its own snapshot), because a batch may send hundreds of receipts.
        """
        if self._snapshot is not snapshot:
            self._snapshot, self._found = snapshot, {}
        if (task, rounds) not in self._found:
            going_on = [record for record in snapshot.tasks.values() if record.state.status is TaskStatus.ACTIVE]
            named = [record for record in going_on if record.name == task]
            now_s = self._clock.now_s()
            all_of_them = (
                (*self._expected(record, snapshot.rounds.get(record.name), rounds, now_s), bool(named))
                for record in named or going_on
            )
            self._found[task, rounds] = min(all_of_them, key=lambda found: found[0], default=None)
        return self._found[task, rounds]

    def _expected(self, record: TaskRecord, current: Round | None, rounds: int, now_s: float) -> tuple[float, Steering]:
        """Expected seconds until the task's next selection with room for the device, and its steering parameters."""
        number = 0 if current is None else current.number
        steering, usual_s = self._steering(record, number, now_s)
        if current is None:
            return wait_s(record.settings.schedule, record.state.closed_at_s, now_s), steering
        expected_s = 0.0
        if current.phase is not Phase.SELECTION and current.started_at_s is not None:
            longest_s = current.rules.report_deadline_s
            expected_s = opens_in_s(current.started_at_s, current.deadline_s, longest_s, usual_s, now_s)
            expected_s += wait_s(record.settings.schedule, now_s + expected_s, now_s + expected_s)
        if rounds:
            expected_s += (rounds - (current.phase is not Phase.SELECTION)) * usual_s
        return expected_s, steering

    def _steering(self, record: TaskRecord, number: int, now_s: float) -> tuple[Steering, float]:
        """Steering and the usual round length in seconds; cached per round, which sends thousands of answers."""
        known = self._looked_up.get(record.name)
        if known is None or known[0] != number:
            settings = record.settings
            with self._repository.transaction() as tx:
                population, rhythm = tx.devices_since(now_s - LATELY_S), tx.rhythm()
            steering = Steering(
                population=round(settings.variant.share * population) if settings.variant.experiment else population,
                cohort=settings.rules().cohort,
                selection_deadline_s=settings.selection_deadline_s,
                shortest_s=settings.shortest_retry_s,
                loads=loads(rhythm, now_s),
            )
            known = self._looked_up[record.name] = (number, steering, rhythm.usual_round_s)
        return known[1:]
