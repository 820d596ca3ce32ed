"""Carries out effects: messages to devices, the announcement, jobs for the worker, deletions.

Each may be carried out twice. Nothing is decided here but when a device should come back, which depends on the moment
of sending.
"""

from __future__ import annotations

import numpy as np

from coordinator.config import CoordinatorConfig
from coordinator.core.events import AssignDevice, RejectCheckIn, SendReceipt, StartAggregation
from coordinator.core.pace import Steering, loads, opens_in_s, retry_after_s
from coordinator.core.round import Phase, Round, awaits_report
from coordinator.effects import AnnounceModel, EvaluateVersion, ForgetBlobs, PendingEffect, SendMissing
from coordinator.jobs import AggregationJob, Evaluation, EvaluationJob, ReportFile
from coordinator.ports import BlobStore, Clock, Repository, Transport, VersionRecord, Worker
from models.manifest import Artifact
from wire import messages, topics
from wire.identifiers import DeviceId, Population, Sha256
from wire.messages import Announcement, Assignment, Missing, Receipt, Rejection, RejectionReason

REFUSED_RETRY_S = 900.0
"""A device that lacks text or a newer agent will hardly have it sooner (Android retries after 15 minutes, too)."""
_NOT_SOON = frozenset({RejectionReason.OUTDATED_AGENT, RejectionReason.TOO_FEW_EXAMPLES, RejectionReason.BLOCKED})
NO_TASK_RETRY_S = 3600.0
"""The task is done; a new one is hours away at best."""
LATELY_S = 86400.0
"""A device seen within a day belongs to the population: most are charged once a day."""


class Execution:
    """The outgoing side.

    Args:
        config: the whole configuration.
        repository: where reports and devices are looked up.
        private: where reports lie.
        transport: to the devices.
        worker: averages and measures.
        clock: wall-clock time.
        generator: jitter of retry windows.

    Attributes:
        mask: the coordinates of updates against the current version, for codecs that need them.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        repository: Repository,
        private: BlobStore,
        transport: Transport,
        worker: Worker,
        clock: Clock,
        generator: np.random.Generator,
    ) -> None:
        self.mask: Artifact | None = None
        self._seed = config.seed
        self._shards = config.shards
        self._task = config.task
        self._population = Population(config.population)
        self._repository = repository
        self._private = private
        self._transport = transport
        self._worker = worker
        self._clock = clock
        self._generator = generator
        self._steered_round = -1
        self._looked_up: tuple[Steering, float] | None = None

    def carry_out(self, effect: PendingEffect, current: Round | None, version: VersionRecord) -> bool:
        """Do it now.

        Args:
            effect: what.
            current: the open round.
            version: the current version.

        Returns:
            Whether it is done; a job is done only when its result comes.
        """
        match effect:
            case StartAggregation(round_number):
                if current is None or current.number != round_number or current.phase is not Phase.COMMITTING:
                    return True  # it took too long, and the round was abandoned
                self._worker.submit(self._aggregation(round_number, version))
                return False
            case EvaluateVersion(number):
                return not self._evaluate(number)
            case AssignDevice():
                self._assign(effect, current, version)
            case RejectCheckIn(device, reason, detail, rounds):
                wait_s = self._retry_after_s(current, reason, rounds)
                self._send(device, Rejection(reason=reason, retry_after_s=wait_s, detail=detail[:500]))
            case SendReceipt():
                self._send_receipt(effect, current)
            case SendMissing(device, round_number, attempt, chunks):
                self._send(device, Missing(round=round_number, attempt=attempt, chunks=chunks))
            case AnnounceModel():
                message = Announcement(version=version.version, manifest=Sha256(version.manifest), shards=self._shards)
                self._transport.publish(topics.announce(self._population), messages.encode(message), retain=True)
            case ForgetBlobs(sha256s):
                for sha256 in sha256s:
                    self._private.delete(sha256)
        return True

    def _aggregation(self, round_number: int, version: VersionRecord) -> AggregationJob:
        with self._repository.transaction() as tx:
            reports = tx.reports(round_number)
            earlier = tx.versions(self._task.downlink.versions + 1)[:-1]
        return AggregationJob(
            round=round_number,
            manifest=version.manifest,
            reports=tuple(ReportFile(r.device, r.sha256, r.num_examples) for r in reports),
            minimum=self._task.minimum,
            codec=self._task.codec.choice(),
            max_examples=self._task.max_examples,
            optimizer=self._task.server.choice(),
            optimizer_state=version.optimizer_state,
            evaluation=self._evaluation(),
            downlink=self._task.downlink.choice(),
            bases=tuple(record.manifest for record in reversed(earlier)),
            random_share=self._task.codec.random_share,
            seed=self._seed,
        )

    def _evaluate(self, number: int) -> bool:
        evaluation = self._evaluation()
        with self._repository.transaction() as tx:
            record = tx.version(number)
        if evaluation is None or record is None:
            return False
        self._worker.submit(EvaluationJob(number, record.manifest, evaluation))
        return True

    def _evaluation(self) -> Evaluation | None:
        text = self._task.evaluation_text
        return None if text is None else Evaluation(str(text))

    def _assign(self, effect: AssignDevice, current: Round | None, version: VersionRecord) -> None:
        if current is None or current.number != effect.round:
            return  # left over from before a restart
        remaining_s = current.deadline_s - self._clock.now_s()
        if not awaits_report(current, effect.device, effect.attempt) or remaining_s <= 0:
            return
        self._send(
            effect.device,
            Assignment(
                task=self._task.name,
                round=effect.round,
                attempt=effect.attempt,
                version=current.base_version,
                manifest=Sha256(version.manifest),
                codec=self._task.codec.choice(self.mask),
                plan=self._task.plan.plan(),
                report_deadline_s=remaining_s,
            ),
        )

    def _send_receipt(self, effect: SendReceipt, current: Round | None) -> None:
        receipt = Receipt(
            round=effect.round,
            attempt=effect.attempt,
            verdict=effect.verdict,
            code=effect.code,
            detail=effect.detail[:500],
            retry_after_s=self._retry_after_s(current, None),
        )
        self._send(effect.device, receipt)

    def _send(self, device: DeviceId, message: messages.Message) -> None:
        kind = messages.KINDS[type(message)]
        self._transport.publish(topics.down(self._population, device, kind), messages.encode(message))

    def _retry_after_s(self, current: Round | None, reason: RejectionReason | None, rounds: int = 0) -> float:
        if current is None:
            return NO_TASK_RETRY_S
        steering, usual_s = self._steering(current)
        now_s = self._clock.now_s()
        expected_s = 0.0
        if current.phase is not Phase.SELECTION and current.started_at_s is not None:
            longest_s = current.rules.report_deadline_s
            expected_s = opens_in_s(current.started_at_s, current.deadline_s, longest_s, usual_s, now_s)
        if rounds:
            expected_s += (rounds - (current.phase is not Phase.SELECTION)) * usual_s
        if reason in _NOT_SOON:
            expected_s = max(expected_s, REFUSED_RETRY_S)
        return retry_after_s(steering, expected_s, now_s, self._generator)

    def _steering(self, current: Round) -> tuple[Steering, float]:
        """Looked up once a round: thousands of answers go out in one."""
        if self._steered_round != current.number or self._looked_up is None:
            now_s = self._clock.now_s()
            with self._repository.transaction() as tx:
                population, rhythm = tx.devices_since(now_s - LATELY_S), tx.rhythm()
            steering = Steering(
                population=population,
                cohort=current.rules.cohort,
                selection_deadline_s=current.rules.selection_deadline_s,
                shortest_s=self._task.shortest_retry_s,
                loads=loads(rhythm, now_s),
            )
            self._steered_round, self._looked_up = current.number, (steering, rhythm.usual_round_s)
        return self._looked_up
