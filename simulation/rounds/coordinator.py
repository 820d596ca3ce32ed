"""The coordinator of ``rounds``: its disk is in memory, its worker makes the real mean, and its rounds draw faults."""

from __future__ import annotations

import math
from functools import partial

import msgspec
import numpy as np

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.engine.secure_sums import EnrolledKeyOf
from nightjar.coordinator.ports import BlobStore, Repository
from nightjar.coordinator.records.inbox import Inbox, JobEnded, MessageArrived
from nightjar.coordinator.records.jobs import AggregationDone, AggregationJob, Job, Result
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.round import TERMINAL, Phase, Round
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.models.manifest import Manifest
from nightjar.simulation.rounds.broker import Broker
from nightjar.simulation.rounds.faults import PHASE_FAULTS, Dice, SimulatedFault
from nightjar.simulation.rounds.observer import Observer
from nightjar.simulation.rounds.ports import enrolled_key
from nightjar.simulation.rounds.process import CoordinatorProcess
from nightjar.simulation.rounds.storage import MemoryBlobs, MemoryRepository
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.wire import messages
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import Receipt, Rejection
from nightjar.wire.parameters import Vector

UNSTEERED_S = 60.0
"""Retry time for every phone without pace steering."""
DISK_FULL_S = (5.0, 60.0)
"""Longer than the first back-off waits, shorter than the ten minutes after which the coordinator gives up."""
BROKER_DOWN_S = (2.0, 30.0)
"""A restarted service, or a moved container."""
CLOCK_JUMP_S = (0.5, 600.0)
"""From a daily NTP correction to a suspended virtual machine."""
LASTS_S = {Phase.SELECTION: 20.0, Phase.REPORTING: 60.0, Phase.COMMITTING: 2.0}
"""A fault that was drawn for a phase happens within this time if the round is still in the phase."""


class CoordinatorHost(CoordinatorProcess):
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
        super().__init__(config, timeline, broker, dice, generator, give_up_after_s=math.inf)
        self._steered = steered
        self._artifacts = artifacts
        self._observer = observer
        self._doomed = ""
        self._disk_full_until_s = -math.inf
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

    def _disk(self) -> tuple[Repository, BlobStore]:
        with self.repository.transaction() as tx:
            tx.sweep_states()
        return self.repository, self._artifacts

    def _enrolled(self) -> EnrolledKeyOf:
        return lambda device: enrolled_key(int(device.rsplit("-", 1)[1])).public

    def _dooms(self, batch: list[Inbox]) -> bool:
        if not self._doomed or not any(_is_of(event, self._doomed) for event in batch):
            return False
        self._doomed = ""
        return True

    def _outgoing(self, topic: str, payload: bytes) -> bytes:
        return payload if self._steered else _unsteered(topic, payload)

    def _perform(self, job: Job) -> Result:
        result = do_job(job, self._artifacts, self.repository.view, _measure_nothing)
        if isinstance(job, AggregationJob) and isinstance(result, AggregationDone):
            self._observer.averaged(job, result)
        return result

    def _touched(self) -> None:
        self._fuse.touch()
        if self._timeline.now_s < self._disk_full_until_s:
            msg = "the coordinator's disk is full"
            raise UnavailableError(msg)

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
