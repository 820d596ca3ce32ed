"""Checks the coordinator's invariants in a simulation, independently of the coordinator.

It sees the reports that phones stored, the messages that the coordinator published, and the input of each aggregation.
From these it decides whether an accepted report was lost or counted twice, and whether the new weights equal the base
plus the weighted mean of the phones' updates, bit for bit; with secure sums, the mean in the sum of what they gave. It
does not use the coordinator's counters. With several tasks, it also checks the open rounds at every assignment: a
device works in one round at a time, and never for two variants of one experiment.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from nightjar.coordinator.config import TaskConfig
from nightjar.coordinator.learning.staleness import parse_staleness
from nightjar.coordinator.ports import BlobStore, Transaction
from nightjar.coordinator.records.jobs import AggregationDone, AggregationJob
from nightjar.coordinator.rounds.round import Phase, Round, seat_round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.tasks.settings import Mode
from nightjar.coordinator.versions.rollout import Stage
from nightjar.edge_agent.core.stored import NewReport
from nightjar.models.manifest import Manifest
from nightjar.simulation.rounds.model import LAYOUT
from nightjar.wire import frame, messages, topics
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Assignment, Receipt, Verdict
from nightjar.wire.parameters import Vector, weights_from_bytes
from nightjar.wire.secure_sum.low_rank import from_bytes
from nightjar.wire.secure_sum.masks import Words
from nightjar.wire.secure_sum.order import SumOrder, read_sum

Wide = npt.NDArray[np.float64]
Key = tuple[int, DeviceId, int]
"""Round, device, attempt."""
_REJECTED = frozenset({Stage.REFUSED, Stage.ROLLED_BACK})
_FORGET_AFTER = 3
"""Number of rounds after which old reports are discarded; late ones arrive within one or two."""
_FORGET_AFTER_BUFFERS = 50
"""The same with buffered rounds, whose seats go on to later ones."""


class Observer:
    """Observes a simulation and collects violations.

    ``now_s`` is virtual time, because the coordinator's clock may jump; ``experiments`` has the experiment of each task
    that is a variant.
    """

    def __init__(
        self,
        task: TaskConfig,
        artifacts: BlobStore,
        view: Callable[[], Transaction],
        now_s: Callable[[], float],
        experiments: Mapping[str, str],
    ) -> None:
        self._codec = task.codec.choice()
        self._buffered = task.mode is Mode.BUFFERED
        self._staleness = parse_staleness(task.staleness)
        self._artifacts = artifacts
        self._view = view
        self._now_s = now_s
        self._experiments = experiments
        self._variant_of: dict[tuple[DeviceId, str], str] = {}
        self._produced: dict[Key, bytes] = {}
        self._contributed: dict[Key, Words] = {}
        self._of: dict[int, str] = {}  # round -> task
        self._assigned_s: dict[Key, float] = {}
        self._late: set[Key] = set()
        self._ended: dict[str, list[int]] = defaultdict(list)
        self._accepted: dict[int, set[Key]] = {}
        self._averaged: dict[int, tuple[AggregationJob, AggregationDone]] = {}
        self._counted: Counter[Key] = Counter()
        self.verdicts: Counter[str] = Counter()  # receipts by verdict; an accepted report counts once
        self.stale: Counter[int] = Counter()  # reports by the versions published between their base and their receipt
        self.spent_s: defaultdict[str, float] = defaultdict(float)  # from assignments to first receipts, by verdict
        self.contradicted: list[Key] = []  # reports that were accepted and also answered as late
        self.wrong_means: list[int] = []  # committed rounds whose weights are not the base plus the mean of the updates
        self.lost: list[Key] = []  # accepted reports that are in no committed, abandoned or open round
        self.rounds: list[Round] = []  # the ended rounds, in order
        self.double_booked: list[Key] = []  # assignments for two rounds at once, or for two variants
        self.rejected_used: set[int] = set()  # refused or rolled-back versions that were trained from or kept a state
        self.began_s: dict[int, float] = {}  # virtual time of the beginning of each round, by number
        self.ended_s: dict[int, float] = {}  # virtual time of the end of each round, by number

    @property
    def counted_twice(self) -> int:
        """How often a (round, device) was averaged again after the first time."""
        entries: Counter[tuple[int, DeviceId]] = Counter()
        for (number, device, _), count in self._counted.items():
            entries[(number, device)] += count
        return sum(count - 1 for count in entries.values())

    def seconds(self, number: int) -> float:
        """Duration of a round in virtual time."""
        end_s = self.ended_s[number]
        return end_s - self.began_s.get(number, end_s)

    def produced(self, device: DeviceId, report: NewReport) -> None:
        """Note that a phone stored a report in its outbox."""
        self._produced[(report.parcel.round, device, report.parcel.attempt)] = report.frame

    def contributed(self, device: DeviceId, report: NewReport, words: Words) -> None:
        """Note what a phone would give to a secure sum before it is masked."""
        self._contributed[(report.parcel.round, device, report.parcel.attempt)] = words

    def published(self, topic: str, payload: bytes) -> None:
        """Note a message that the coordinator published."""
        if not topic.endswith(("/receipt", "/assignment")):
            return
        place = topics.parse(topic)
        if isinstance(place, topics.DownTopic):
            message = messages.decode(place.kind, payload)
            if isinstance(message, Receipt):
                self._note_receipt(place.device, message)
            elif isinstance(message, Assignment):
                self._note_assignment(place.device, message)

    def _note_assignment(self, device: DeviceId, assignment: Assignment) -> None:
        self._assigned_s.setdefault((assignment.round, device, assignment.attempt), self._now_s())
        rounds = self._view().open_rounds()
        seats = [state.seats[device] for state in rounds if device in state.seats]
        twice = sum(seat.state is SeatState.WORKING for seat in seats) > 1
        experiment = self._experiments.get(assignment.task, "")
        stranger = bool(experiment) and (
            self._variant_of.setdefault((device, experiment), assignment.task) != assignment.task
        )
        if twice or stranger:
            self.double_booked.append((assignment.round, device, assignment.attempt))

    def _note_receipt(self, device: DeviceId, receipt: Receipt) -> None:
        key = (receipt.round, device, receipt.attempt)
        began_s = self._assigned_s.get(key, math.nan)
        if not math.isnan(began_s):
            self.spent_s[receipt.verdict.value] += self._now_s() - began_s
            self._assigned_s[key] = math.nan
        if receipt.verdict is Verdict.LATE:
            self._late.add(key)
        if receipt.verdict is Verdict.ACCEPTED:
            accepted = self._accepted.setdefault(receipt.round, set())
            if key in accepted:
                return
            accepted.add(key)
        if key in self._late and key in self._accepted.get(receipt.round, ()):
            self.contradicted.append(key)
        self.verdicts[receipt.verdict.value] += 1
        if receipt.round in self._of:
            self.stale[self._staleness_of(receipt.round, self._view().last_round_number())] += 1

    def _staleness_of(self, given: int, used: int) -> int:
        """How often the base version of a task's rounds changed between two of them; the trials in between aside."""
        task = self._round(given).task
        between = [self._round(number) for number in range(given, used + 1)]
        bases = [state.base_version for state in between if state.task == task and not state.trial]
        return sum(one != other for one, other in itertools.pairwise(bases))

    def _round(self, number: int) -> Round:
        state = self._view().round(number)
        if state is None:
            msg = f"there is no round {number}"
            raise RemoteProtocolError(msg)
        return state

    def entered(self, state: Round) -> None:
        """Note that a round entered a phase."""
        self._of[state.number] = state.task
        self.began_s.setdefault(state.number, self._now_s())

    def averaged(self, job: AggregationJob, done: AggregationDone) -> None:
        """Note that an aggregation ended; it may still not be committed."""
        self._averaged[job.round] = (job, done)

    def over(self, state: Round) -> None:
        """Note that a round ended, and check it if it was committed."""
        self.rounds.append(state)
        self.ended_s[state.number] = self._now_s()
        if state.phase is Phase.COMMITTED:
            self._check_commit(state)
        of_task = self._ended[state.task]
        of_task.append(state.number)
        kept_rounds = _FORGET_AFTER_BUFFERS if self._buffered else _FORGET_AFTER
        old = set(of_task[:-kept_rounds])
        del of_task[:-kept_rounds]
        for number in old:
            self._averaged.pop(number, None)
        for kept in (self._produced, self._contributed):
            for key in [key for key in kept if key[0] in old]:
                del kept[key]

    def finish(self) -> None:
        """Collect the lost reports of all ended rounds; may be called again after the simulation continued."""
        view = self._view()
        records = (view.version(number) for number in range(view.last_version_number() + 1))
        self.rejected_used |= {
            record.version
            for record in records
            if record is not None and record.rollout.stage in _REJECTED and record.optimizer_state is not None
        }
        self.lost.clear()
        if self._buffered:
            left = set().union(*self._accepted.values()) - self._used_or_waiting()
            self.lost += sorted(key for key in left if not self._is_rejected(self._round(key[0]).base_version))
            return
        phases = {state.number: state.phase for state in self.rounds}
        newest = {task: number for number, task in sorted(self._of.items())}
        for number, accepted in sorted(self._accepted.items()):
            if phases.get(number) is Phase.COMMITTED:
                self.lost += sorted(accepted - self._counted.keys())
            elif number not in phases and number not in newest.values():  # its end was never seen
                self.lost += sorted(accepted)

    def _used_or_waiting(self) -> set[Key]:
        """The reports that were averaged, left with an abandoned round, or wait for a mean."""
        view = self._view()
        rounds = [state for state in self.rounds if state.phase is Phase.ABANDONED] + view.open_rounds()
        rounds += [self._round(task.state.waiting) for task in view.tasks() if task.state.waiting]
        held = {SeatState.REPORTED, SeatState.EARLY}
        return self._counted.keys() | {
            _key_of(state, device) for state in rounds for device, seat in state.seats.items() if seat.state in held
        }

    def _check_commit(self, state: Round) -> None:
        if state.trial:
            self._counted.update(_key_of(state, device) for device in state.devices(SeatState.REPORTED))
            return
        if state.number not in self._averaged:
            self.wrong_means.append(state.number)
            return
        job, done = self._averaged[state.number]
        averaged = sorted(report.device for report in job.reports if report.device not in done.unreadable)
        keys = [_key_of(state, device) for device in averaged]
        self._counted.update(keys)
        made = None if state.version is None else self._view().version(state.version)
        if made is not None and made.rollout.stage not in _REJECTED:
            bases = {state.base_version} | {self._round(given).base_version for given, _, _ in keys}
            self.rejected_used |= {base for base in bases if self._is_rejected(base)}
        if not self._is_the_mean(keys, job, done):
            self.wrong_means.append(state.number)

    def _is_rejected(self, version: int) -> bool:
        record = self._view().version(version)
        return record is None or record.rollout.stage in _REJECTED

    def _is_the_mean(self, keys: list[Key], job: AggregationJob, done: AggregationDone) -> bool:
        base = Manifest.decode(self._artifacts.get(job.manifest))
        weights = weights_from_bytes(self._artifacts.get(base.weights.sha256), LAYOUT)
        if any(key not in self._produced for key in keys):
            return False
        if job.summed is not None:
            found = self._in_the_sum(keys, job.summed.order, base)
            return bool(np.array_equal((weights.astype(np.float64) + found).astype(np.float32), self._made(done)))
        sent = [self._decode(self._produced[key]) for key in keys]
        late = [self._staleness_of(given, job.round) for given, _, _ in keys]
        norms = sorted(norm for _, _, norm in sent if norm > 0)
        clip_norm = (norms[(len(norms) - 1) // 2] if norms else math.inf) if job.clip_norm is None else job.clip_norm
        examples = sorted(num_examples for num_examples, _, _ in sent)
        most = examples[(len(examples) - 1) // 2]
        total, weight_sum = np.zeros(LAYOUT.size, np.float64), 0.0
        for (num_examples, update, norm), staleness in zip(sent, late, strict=True):
            weight = float(min(num_examples, most))
            factor = self._staleness(staleness)
            total += weight * (factor * (clip_norm / norm if norm > clip_norm else 1.0)) * update
            weight_sum += weight
        expected = (weights.astype(np.float64) + total / weight_sum).astype(np.float32)
        return bool(np.array_equal(expected, self._made(done)))

    def _made(self, done: AggregationDone) -> Vector:
        return weights_from_bytes(self._artifacts.get(done.weights), LAYOUT)

    def _in_the_sum(self, keys: list[Key], order: SumOrder, base: Manifest) -> Wide:
        """The mean in the sum of what the phones gave, (n,) float64."""
        total = np.sum([self._contributed[key] for key in keys], axis=0, dtype=np.uint64)
        words = (total % 2**order.bits).astype(np.uint32)
        if base.bases is None:
            return np.zeros(LAYOUT.size)
        bases, spread = from_bytes(self._artifacts.get(base.bases.sha256), LAYOUT, order.rank)
        return read_sum(words, order, LAYOUT, bases, spread).mean.astype(np.float64)

    def _decode(self, sent: bytes) -> tuple[int, Wide, float]:
        """Number of examples, dense update, and its norm."""
        report = frame.decode(sent)
        if not isinstance(report, frame.Report):
            msg = "a report of this model fits one message"
            raise RemoteProtocolError(msg)
        update = codec_for(self._codec).decode(report.payload, LAYOUT)
        dense = np.zeros(LAYOUT.size, np.float64)
        dense[update.indices] = update.values
        norm = math.sqrt(np.square(update.values.astype(np.float64)).sum())
        return report.num_examples, dense, norm


def _key_of(state: Round, device: DeviceId) -> Key:
    """The key of the report of a device's seat."""
    seat = state.seats.get(device)
    return (state.number, device, 0) if seat is None else (seat_round(state, seat), device, seat.attempt)
