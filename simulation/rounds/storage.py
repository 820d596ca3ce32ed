# ruff: noqa: D102 - the ports say what their methods do
"""The coordinator's database and blobs in memory, with transactions.

Like a disk, they survive a simulated restart of the coordinator. A transaction writes in place and keeps an undo log,
so its cost depends on its writes and not on the size of the tables. Every access to a store calls ``touched``, which
may raise to simulate a full disk or a power cut between any two writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.records.effects import PendingEffect
from nightjar.coordinator.records.rounds import CountedCohort, CountedKind, StoredChunk, StoredReport, StoredSum
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.labelling import Labelling
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.rounds.pace_steering import Rhythm
from nightjar.coordinator.rounds.round import TERMINAL, Round
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.versions.releases import Release, ReleaseHealth, Releases
from nightjar.coordinator.versions.rollout import Stage
from nightjar.models.signed_programs import SignedProgram
from nightjar.wire.errors import IntegrityError, LocalProtocolError
from nightjar.wire.identifiers import DeviceId

Touched = Callable[[], None]
"""Called before a store is accessed; may raise to inject a fault."""

_Key = TypeVar("_Key")
_Row = TypeVar("_Row")
_ABSENT: Any = object()


def nothing_wrong() -> None:
    """Inject no fault."""


class MemoryBlobs:
    """Implements :class:`nightjar.coordinator.ports.BlobStore`; ``touched`` is called before each change."""

    def __init__(self) -> None:
        self.touched: Touched = nothing_wrong
        self._blobs: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        self.touched()
        name = hashlib.sha256(data).hexdigest()
        self._blobs[name] = data
        return name

    def get(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            msg = f"there is no blob {sha256}"
            raise IntegrityError(msg)
        return self._blobs[sha256]

    def __len__(self) -> int:
        """Number of blobs."""
        return len(self._blobs)


class MemoryView:
    """The tables, with the methods of :class:`nightjar.coordinator.ports.Transaction` and of ``PrivateStore``.

    ``touched`` is called before each write.
    """

    def __init__(self, touched: Touched) -> None:
        self._touched = touched
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        self._tasks: dict[str, TaskRecord] = {}
        self._rounds: dict[int, Round] = {}
        self._open: dict[int, Round] = {}
        self._sums: dict[int, StoredSum] = {}
        self._cohorts: dict[int, CountedCohort] = {}
        self._reports: dict[int, dict[tuple[DeviceId, int], StoredReport]] = {}
        self._frames: dict[int, dict[tuple[DeviceId, int], bytes]] = {}
        self._chunks: dict[tuple[int, DeviceId, int, int], tuple[StoredChunk, bytes]] = {}
        self._states_of_optimizers: dict[str, bytes] = {}
        self._leases: dict[DeviceId, Lease] = {}
        self._states: dict[tuple[str, str], int] = {}
        self._versions: dict[int, VersionRecord] = {}
        self._federated: dict[int, Tally] = {}
        self._effects: dict[int, PendingEffect] = {}
        self._begun: dict[int, int] = {}
        self._counters: dict[str, int] = {}
        self._rhythm: dict[str, Rhythm] = {}
        self._labelling: dict[str, Labelling] = {}
        self._number: dict[str, int] = {}
        self._audit: dict[int, AuditEntry] = {}
        self._last: dict[str, int] = {}

    # Transactions

    def commit(self) -> None:
        """Keep all writes."""
        self._undo.clear()

    def roll_back(self) -> None:
        """Undo all writes since the last commit."""
        for table, key, before in reversed(self._undo):
            if before is _ABSENT:
                del table[key]
            else:
                table[key] = before
        self._undo.clear()

    def _put(self, table: dict[_Key, _Row], key: _Key, row: _Row) -> None:
        self._touched()
        self._undo.append((table, key, table.get(key, _ABSENT)))
        table[key] = row

    def _remove(self, table: dict[_Key, _Row], key: _Key) -> None:
        if key in table:
            self._touched()
            self._undo.append((table, key, table.pop(key)))

    def _insert(self, table: dict[_Key, _Row], key: _Key, row: _Row) -> None:
        if key in table:
            msg = f"row {key} exists already"
            raise LocalProtocolError(msg)
        self._put(table, key, row)

    # Rounds

    def tasks(self) -> list[TaskRecord]:
        return sorted(self._tasks.values(), key=lambda record: record.state.number)

    def task(self, name: str) -> TaskRecord | None:
        return self._tasks.get(name)

    def save_task(self, record: TaskRecord) -> None:
        self._put(self._tasks, record.name, record)

    def open_rounds(self) -> list[Round]:
        return [self._open[number] for number in sorted(self._open)]

    def round(self, number: int) -> Round | None:
        return self._rounds.get(number)

    def last_round_number(self) -> int:
        return self._last.get("round", 0)

    def save_round(self, state: Round) -> None:
        self._put(self._rounds, state.number, state)
        if state.phase in TERMINAL:
            self._remove(self._open, state.number)
        else:
            self._put(self._open, state.number, state)
        if state.number > self.last_round_number():
            self._put(self._last, "round", state.number)

    # Secure sums

    def sums(self) -> dict[int, StoredSum]:
        return dict(self._sums)

    def save_sum(self, round_number: int, held: StoredSum) -> None:
        self._put(self._sums, round_number, held)

    def drop_sum(self, round_number: int) -> None:
        self._remove(self._sums, round_number)

    # Cohorts

    def counted_cohorts(self, weights: str, kinds: Collection[CountedKind]) -> list[CountedCohort]:
        kept = [self._cohorts[number] for number in sorted(self._cohorts)]
        return [each for each in kept if each.weights == weights and each.kind in kinds]

    def count_cohort(self, cohort: CountedCohort) -> None:
        self._put(self._cohorts, cohort.round, cohort)

    # Reports and chunks

    def reports(self, round_number: int) -> list[StoredReport]:
        found = self._reports.get(round_number, {})
        return [found[key] for key in sorted(found)]

    def add_report(self, report: StoredReport, frame: bytes) -> None:
        if report.round not in self._reports:
            self._put(self._reports, report.round, {})
            self._put(self._frames, report.round, {})
        self._insert(self._reports[report.round], (report.device, report.attempt), report)
        self._insert(self._frames[report.round], (report.device, report.attempt), frame)

    def carry_reports(self, round_number: int, following: int, devices: Sequence[DeviceId]) -> None:
        held = self._reports.get(round_number, {})
        for key in [key for key in held if key[0] in devices]:
            report, frame = held[key], self._frames[round_number][key]
            self._remove(held, key)
            self._remove(self._frames[round_number], key)
            self.add_report(replace(report, round=following), frame)
        for chunk, frame in [self._chunks[key] for key in self._chunks if key[0] == round_number and key[1] in devices]:
            self._remove(self._chunks, (chunk.round, chunk.device, chunk.attempt, chunk.number))
            self.add_chunk(replace(chunk, round=following), frame)

    def drop_frames(self, round_number: int) -> None:
        self._remove(self._frames, round_number)

    def chunks(self, round_number: int, device: DeviceId, attempt: int) -> list[StoredChunk]:
        return [chunk for chunk, _ in self._chunks_of(round_number, device, attempt)]

    def chunk_frames(self, round_number: int, device: DeviceId, attempt: int) -> list[bytes]:
        return [frame for _, frame in self._chunks_of(round_number, device, attempt)]

    def _chunks_of(self, *report: object) -> list[tuple[StoredChunk, bytes]]:
        return [self._chunks[key] for key in sorted(self._chunks) if key[:3] == report]

    def add_chunk(self, chunk: StoredChunk, frame: bytes) -> None:
        self._insert(self._chunks, (chunk.round, chunk.device, chunk.attempt, chunk.number), (chunk, frame))

    def drop_chunks(self, round_number: int, device: DeviceId | None = None) -> None:
        for key in [key for key in self._chunks if key[0] == round_number and device in {None, key[1]}]:
            self._remove(self._chunks, key)

    # The worker's store

    def frame(self, round_number: int, device: DeviceId, attempt: int) -> bytes:
        found = self._frames.get(round_number, {}).get((device, attempt))
        if found is None:
            msg = f"there is no report of {device} in round {round_number}, attempt {attempt}"
            raise IntegrityError(msg)
        return found

    def state(self, sha256: str) -> bytes:
        if sha256 not in self._states_of_optimizers:
            msg = f"there is no state {sha256}"
            raise IntegrityError(msg)
        return self._states_of_optimizers[sha256]

    def keep_state(self, data: bytes) -> str:
        self._touched()
        sha256 = hashlib.sha256(data).hexdigest()
        self._states_of_optimizers[sha256] = data
        return sha256

    def drop_state(self, sha256: str) -> None:
        self._remove(self._states_of_optimizers, sha256)

    def sweep_states(self) -> None:
        needed = {record.optimizer_state for record in self._versions.values()}
        for sha256 in [sha256 for sha256 in self._states_of_optimizers if sha256 not in needed]:
            self.drop_state(sha256)

    # Devices

    def lease(self, device: DeviceId) -> Lease | None:
        return self._leases.get(device)

    def save_lease(self, lease: Lease) -> None:
        before = self._leases.get(lease.device)
        self._put(self._leases, lease.device, lease)
        key = _state_of(lease)
        if before is None or _state_of(before) != key:
            self._put(self._states, key, self._states.get(key, 0) + 1)
            if before is not None:
                self._put(self._states, _state_of(before), self._states[_state_of(before)] - 1)

    def leases_after(self, limit: int, device: str) -> list[Lease]:
        return [self._leases[name] for name in sorted(self._leases) if name > device][:limit]

    def keep_signed_program(self, signed: SignedProgram) -> None:
        """Nothing to keep: simulated devices compute what they are given."""

    def labelling(self) -> Labelling:
        return self._labelling.get("labelling", Labelling())

    def save_labelling(self, labelling: Labelling) -> None:
        self._put(self._labelling, "labelling", labelling)

    def device_states(self) -> Mapping[tuple[str, str], int]:
        return {pair: count for pair, count in self._states.items() if count}

    def devices_since(self, since_s: float) -> int:
        return sum(lease.last_seen_s >= since_s for lease in self._leases.values())

    # Versions

    def version(self, number: int) -> VersionRecord | None:
        return self._versions.get(number)

    def current_version(self, task: str | None = None) -> VersionRecord | None:
        return self._newest(Stage.CURRENT, task)

    def canary_version(self, task: str | None = None) -> VersionRecord | None:
        return self._newest(Stage.CANARY, task)

    def training_version(self, task: str) -> VersionRecord | None:
        return self._newest(Stage.TRAINING, task)

    def best_version(self, task: str, since: int) -> VersionRecord | None:
        announced = [r for r in self._versions.values() if r.rollout.stage in {Stage.CURRENT, Stage.SUPERSEDED}]
        shares = {r.version: r.metrics.top1 for r in announced if r.task == task and r.metrics is not None}
        best = max(((top1, number) for number, top1 in shares.items() if number > since), default=None)
        return None if best is None else self._versions[best[1]]

    def _newest(self, stage: Stage, task: str | None) -> VersionRecord | None:
        newest_first = (self._versions[n] for n in range(self.last_version_number(), -1, -1) if n in self._versions)
        return next((r for r in newest_first if r.rollout.stage is stage and task in {None, r.task}), None)

    def last_version_number(self) -> int:
        return self._last.get("version", -1)

    def measured_since(self) -> int:
        """The held-out text never changes here."""
        return -1

    def save_version(self, record: VersionRecord) -> None:
        self._put(self._versions, record.version, record)

    def federated(self, version: int) -> Tally:
        return self._federated.get(version, Tally())

    def save_federated(self, version: int, tally: Tally) -> None:
        self._put(self._federated, version, tally)

    def add_version(self, record: VersionRecord) -> None:
        self._insert(self._versions, record.version, record)
        self._put(self._last, "version", max(record.version, self._last.get("version", -1)))

    def versions(self, limit: int, before: int | None = None, task: str | None = None) -> list[VersionRecord]:
        found = [self._versions[number] for number in sorted(self._versions) if before is None or number < before]
        return [record for record in found if task in {None, record.task}][-limit:]

    # Effects and counters

    def add_effect(self, effect: PendingEffect) -> int:
        number = self._last.get("effect", 0) + 1
        self._put(self._last, "effect", number)
        self._put(self._effects, number, effect)
        return number

    def begin_effects(self) -> list[tuple[int, PendingEffect, int]]:
        for number in self._effects:
            self._put(self._begun, number, self._begun.get(number, 0) + 1)
        return [(number, effect, self._begun[number]) for number, effect in sorted(self._effects.items())]

    def remove_effects(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._remove(self._effects, number)
            self._remove(self._begun, number)

    def count(self, name: str, amount: int = 1) -> None:
        self._put(self._counters, name, self._counters.get(name, 0) + amount)

    def rhythm(self) -> Rhythm:
        return self._rhythm.get("rhythm", Rhythm())

    def save_rhythm(self, rhythm: Rhythm) -> None:
        self._put(self._rhythm, "rhythm", rhythm)

    def draw_number(self, now_s: float) -> int:
        number = max(self._number.get("order", 0) + 1, int(now_s * 1000))
        self._put(self._number, "order", number)
        return number

    def releases(self) -> Releases:
        """No release: the simulation has one agent."""
        return ()

    def save_releases(self, releases: Releases) -> None:
        """Not used: there is no release to change."""

    def release_health(self, release: Release, now_s: float) -> ReleaseHealth:  # noqa: ARG002 - the port's signature
        """Not used: no release is on trial."""
        return ReleaseHealth()

    def devices_with(self, labels: Sequence[str]) -> list[DeviceId]:  # noqa: ARG002 - the port's signature
        """Not used: no release is started."""
        return []

    def add_audit(self, entry: AuditEntry) -> None:
        number = len(self._audit) + 1
        self._put(self._audit, number, replace(entry, number=number))

    def counters(self) -> Mapping[str, int]:
        return dict(self._counters)


def _state_of(lease: Lease) -> tuple[str, str]:
    return lease.state, lease.reason if lease.state == "ineligible" else ""


class MemoryRepository:
    """Implements :class:`nightjar.coordinator.ports.Repository`.

    ``touched`` is called before each write, and at both ends of a transaction.
    """

    def __init__(self, touched: Touched = nothing_wrong) -> None:
        self._touched = touched
        self._view = MemoryView(touched)

    @property
    def view(self) -> MemoryView:
        """The committed tables, for reading without injected faults."""
        return self._view

    @contextmanager
    def transaction(self) -> Iterator[MemoryView]:
        """Begin a transaction; commit at the end of the block, roll back if it raises."""
        self._touched()
        try:
            yield self._view
            self._touched()
        except BaseException:
            self._view.roll_back()
            raise
        self._view.commit()
