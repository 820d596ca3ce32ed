"""A view: an open transaction on the coordinator's database, as the engine and the pages use it.

Rounds and effects are JSON with a few columns to search by; all other data has its own columns.

The driver handles hundreds of messages in one transaction, so a view *writes behind*: values that change repeatedly
(the round, leases, counters) are written once, and rows of one kind (reports, effects) are inserted in batches. This
happens at the end of the transaction, or before a read that they could affect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import structs

from nightjar.coordinator.records.effects import EFFECTS, PendingEffect
from nightjar.coordinator.records.rounds import CountedCohort, CountedKind, StoredChunk, StoredReport, StoredSum
from nightjar.coordinator.rounds.labelling import Labelling
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.rounds.pace_steering import Rhythm
from nightjar.coordinator.rounds.round import TERMINAL, Phase, Round
from nightjar.coordinator.storage.apart import why_apart
from nightjar.coordinator.storage.baselines import KeptBaselines
from nightjar.coordinator.storage.disk_use import DiskPoint
from nightjar.coordinator.storage.reading import Reading, lease_from, summed_up
from nightjar.coordinator.storage.tables import (
    chunks,
    counted_cohorts,
    counters,
    devices,
    effects,
    facts,
    note,
    optimizer_states,
    report_frames,
    reports,
    round_summaries,
    rounds,
    secure_sums,
    tasks,
    upsert,
    versions,
)
from nightjar.coordinator.storage.versions import VersionQueries
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import Task
from nightjar.coordinator.versions.releases import Releases
from nightjar.models.signed_programs import SignedProgram
from nightjar.wire.identifiers import DeviceId

STATES_TOLD_APART = 50
"""Most states and reasons that are counted separately: devices choose their reasons, and a person reads four."""
RHYTHM, HELD_OUT_TEXT, MEASURED_SINCE, BASELINES = "rhythm", "held-out-text", "measured-since", "baselines"
ORDER_NUMBER, LABELLING = "order-number", "labelling"
RELEASES, RELEASE_FILES = "releases", "release-files"
DISK_POINTS, TRUSTED_TIME, SETTINGS = "disk-points", "trusted-time", "settings"
SIGNED_PROGRAMS = "signed-programs"
"""Names in the table ``facts``."""

_Fact = TypeVar("_Fact")
_DEVICES = msgspec.json.Decoder(tuple[DeviceId, ...])
_ROUND = msgspec.json.Decoder(Round)
_SUM = msgspec.msgpack.Decoder(StoredSum)
_TASK, _SETTINGS = msgspec.json.Decoder(Task), msgspec.json.Decoder(TaskSettings)


class DatabaseView(VersionQueries, Reading):
    """An open transaction; :class:`nightjar.coordinator.ports.Transaction` describes each method."""

    def __init__(self, connection: sa.Connection, effect_numbers: Iterator[int]) -> None:
        self._connection = connection
        self._effect_numbers = effect_numbers
        self._rounds: dict[int, Round] = {}
        self._closed_rounds: dict[int, Round] = {}
        self._sums: dict[int, StoredSum] = {}
        self._leases: dict[DeviceId, Lease] = {}
        self._changed_leases: set[DeviceId] = set()
        self._reports: list[tuple[StoredReport, bytes]] = []
        self._effects: list[tuple[int, PendingEffect]] = []
        self._counts: Counter[str] = Counter()
        self._rhythm: Rhythm | None = None
        self._rhythm_changed = False

    def flush(self) -> None:
        """Write all buffered changes."""
        over: list[Round] = []
        if self._rounds:
            self._put(rounds, [_round_row(state) for state in self._rounds.values()])
            over = [state for state in self._rounds.values() if state.phase in TERMINAL]
            self._rounds.clear()
        if self._sums:
            kept = [{"round": number, "state": msgspec.msgpack.encode(held)} for number, held in self._sums.items()]
            self._put(secure_sums, kept)
            self._sums.clear()
        if self._reports:
            self._connection.execute(_ADD_REPORTS, [structs.asdict(report) for report, _ in self._reports])
            self._connection.execute(
                _ADD_FRAMES,
                [
                    {"round": report.round, "device": report.device, "attempt": report.attempt, "body": frame}
                    for report, frame in self._reports
                ],
            )
            self._counts["reports_accepted"] += len(self._reports)
            self._reports.clear()
        if over:
            summaries = [summed_up(state, self._connection) for state in over]
            rows = [{"number": each.number, "body": msgspec.json.encode(each)} for each in summaries]
            self._put(round_summaries, rows)
        if self._changed_leases:
            changed = [self._leases[device] for device in sorted(self._changed_leases)]
            self._put(devices, [{**structs.asdict(lease), "presence": lease.presence.value} for lease in changed])
            self._changed_leases.clear()
        if self._effects:
            added = [{"number": number, "body": msgspec.json.encode(effect)} for number, effect in self._effects]
            self._connection.execute(sa.insert(effects), added)
            self._effects.clear()
        if self._counts:
            self._put(counters, [{"name": name, "value": amount} for name, amount in self._counts.items()])
            self._counts.clear()
        if self._rhythm_changed:
            self._save_fact(RHYTHM, self._rhythm)
            self._rhythm_changed = False

    def _put(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        self._connection.execute(upsert(self._connection.dialect.name, table), rows)

    # Tasks

    def tasks(self) -> list[TaskRecord]:
        """All tasks, in order of creation."""
        query = sa.select(tasks.c.state, tasks.c.settings).order_by(tasks.c.number)
        return [_task(state, settings) for state, settings in self._connection.execute(query)]

    def task(self, name: str) -> TaskRecord | None:
        """A task; None if there is none of this name."""
        row = self._connection.execute(sa.select(tasks.c.state, tasks.c.settings).where(tasks.c.name == name)).first()
        return None if row is None else _task(row.state, row.settings)

    def save_task(self, record: TaskRecord) -> None:
        """Insert or replace a task."""
        state = record.state
        row = {
            "name": state.name,
            "number": state.number,
            "status": state.status.value,
            "state": msgspec.json.encode(state),
            "settings": msgspec.json.encode(record.settings),
        }
        self._put(tasks, [row])

    # Rounds

    def open_rounds(self) -> list[Round]:
        """The open rounds, in ascending order."""
        self.flush()
        over = [phase.value for phase in TERMINAL]
        return self._find_rounds(_ROUNDS.where(rounds.c.phase.not_in(over)).order_by(rounds.c.number))

    def round(self, number: int) -> Round | None:
        """A round, open or closed; None if there is none with this number."""
        state = self._rounds.get(number) or self._closed_rounds.get(number)
        if state is None:
            state = next(iter(self._find_rounds(_ROUNDS.where(rounds.c.number == number))), None)
            if state is not None and state.phase in TERMINAL:  # cached: late reports look it up repeatedly
                self._closed_rounds[number] = state
        return state

    def last_round_number(self) -> int:
        """Number of the newest round; 0 before the first."""
        self.flush()
        return self._connection.scalar(sa.select(sa.func.max(rounds.c.number))) or 0

    def rounds_in(self, phase: Phase) -> int:
        """How many rounds are in a phase, with those that retention deleted."""
        self.flush()
        held = sa.select(sa.func.count()).select_from(rounds).where(rounds.c.phase == phase.value)
        deleted = sa.select(counters.c.value).where(counters.c.name == f"rounds_pruned:{phase.value}")
        return self._scalar(held) + self._scalar(deleted)

    def save_round(self, state: Round) -> None:
        """Insert or replace a round."""
        self._rounds[state.number] = state
        self._closed_rounds.pop(state.number, None)

    def _find_rounds(self, query: sa.Select[Any]) -> list[Round]:
        return [_ROUND.decode(state) for state in self._connection.scalars(query)]

    def counted_cohorts(self, weights: str, kinds: Collection[CountedKind]) -> list[CountedCohort]:
        """The cohorts of these kinds whose reports on these weights were read together."""
        c = counted_cohorts.c
        of_kind = c.kind.in_([kind.value for kind in kinds])
        query = sa.select(counted_cohorts).where(c.weights == weights, of_kind).order_by(c.round)
        rows = self._connection.execute(query)
        return [
            CountedCohort(row.round, row.base_version, row.weights, CountedKind(row.kind), _DEVICES.decode(row.devices))
            for row in rows
        ]

    def count_cohort(self, cohort: CountedCohort) -> None:
        """Store that the reports of a cohort are read together."""
        row = cohort._asdict() | {"kind": cohort.kind.value, "devices": msgspec.json.encode(cohort.devices)}
        self._connection.execute(upsert(self._connection.dialect.name, counted_cohorts), row)

    # Secure sums

    def sums(self) -> dict[int, StoredSum]:
        """The secure sums of open rounds, by number of the round."""
        self.flush()
        rows = self._connection.execute(sa.select(secure_sums.c.round, secure_sums.c.state))
        return {number: _SUM.decode(state) for number, state in rows}

    def save_sum(self, round_number: int, held: StoredSum) -> None:
        """Insert or replace the secure sum of a round."""
        self._sums[round_number] = held

    def drop_sum(self, round_number: int) -> None:
        """Delete the secure sum of a round."""
        self._sums.pop(round_number, None)
        self._connection.execute(sa.delete(secure_sums).where(secure_sums.c.round == round_number))

    # Reports and chunks

    def reports(self, round_number: int) -> list[StoredReport]:
        """Accepted reports of a round, sorted by device."""
        self.flush()
        query = sa.select(reports).where(reports.c.round == round_number)
        return self._fetch_reports(query.order_by(reports.c.device))

    def add_report(self, report: StoredReport, frame: bytes) -> None:
        """Insert an accepted report and its frame."""
        self._reports.append((report, frame))

    def carry_reports(self, round_number: int, following: int, devices: Sequence[DeviceId]) -> None:
        """Move reports, frames and chunks of these devices from one round to another."""
        self.flush()
        moved = [{"was": round_number, "to": following, "of": device} for device in devices]
        for table in (reports, report_frames, chunks) if moved else ():
            here = (table.c.round == sa.bindparam("was")) & (table.c.device == sa.bindparam("of"))
            self._connection.execute(sa.update(table).where(here).values(round=sa.bindparam("to")), moved)

    def drop_frames(self, round_number: int) -> None:
        """Delete the frames of a round; the reports stay."""
        self.flush()
        self._connection.execute(sa.delete(report_frames).where(report_frames.c.round == round_number))

    def chunks(self, round_number: int, device: DeviceId, attempt: int) -> list[StoredChunk]:
        """Stored chunks of one report, in ascending order."""
        columns = [chunks.c[name] for name in StoredChunk.__struct_fields__]
        query = sa.select(*columns).where(_of_report(round_number, device, attempt)).order_by(chunks.c.number)
        return [StoredChunk(**row) for row in self._connection.execute(query).mappings()]

    def chunk_frames(self, round_number: int, device: DeviceId, attempt: int) -> list[bytes]:
        """Frames of the stored chunks of one report, in ascending order."""
        query = sa.select(chunks.c.body).where(_of_report(round_number, device, attempt)).order_by(chunks.c.number)
        return list(self._connection.scalars(query))

    def add_chunk(self, chunk: StoredChunk, frame: bytes) -> None:
        """Insert a chunk that is not stored yet, and its frame."""
        self.flush()  # the chunk references its round, which must be written first
        self._connection.execute(sa.insert(chunks).values({**structs.asdict(chunk), "body": frame}))

    def drop_chunks(self, round_number: int, device: DeviceId | None = None) -> None:
        """Delete the chunks of a round, or of one of its devices."""
        dropped = sa.delete(chunks).where(chunks.c.round == round_number)
        self._connection.execute(dropped if device is None else dropped.where(chunks.c.device == device))

    # Optimizer states; the worker writes them (coordinator.storage.private)

    def drop_state(self, sha256: str) -> None:
        """Delete an optimizer state if it exists."""
        self._connection.execute(sa.delete(optimizer_states).where(optimizer_states.c.sha256 == sha256))

    def sweep_states(self) -> int:
        """Delete orphaned states, left by a kill between writing a state and its version; returns how many."""
        needed = sa.select(versions.c.optimizer_state).where(versions.c.optimizer_state.is_not(None))
        return self._connection.execute(
            sa.delete(optimizer_states).where(optimizer_states.c.sha256.not_in(needed))
        ).rowcount

    # Devices

    def lease(self, device: DeviceId) -> Lease | None:
        """A device's lease; None if the device is unknown."""
        lease = self._leases.get(device)
        if lease is None:
            row = self._connection.execute(_DEVICE, {"of": device}).mappings().first()
            if row is None:
                return None
            lease = self._leases[device] = lease_from(row)
        return lease

    def save_lease(self, lease: Lease) -> None:
        """Insert or replace a device."""
        self._leases[lease.device] = lease
        self._changed_leases.add(lease.device)

    def devices_since(self, since_s: float) -> int:
        """Number of devices seen since ``since_s``."""
        self.flush()
        return self._scalar(sa.select(sa.func.count()).select_from(devices).where(devices.c.last_seen_s >= since_s))

    def device_states(self, lost_before_s: float = 0.0) -> Mapping[tuple[str, str], int]:
        """(State, reason) -> number of devices of the fleet; the reason is empty except for ineligible devices."""
        self.flush()
        reason = sa.case((devices.c.state == "ineligible", devices.c.reason), else_="").label("reason")
        many = sa.func.count().label("many")
        query = sa.select(devices.c.state, reason, many).where(why_apart(lost_before_s) == "")
        rows = self._connection.execute(
            query.group_by(devices.c.state, reason).order_by(many.desc()).limit(STATES_TOLD_APART)
        )
        return {(state, why): count for state, why, count in rows}

    def fleet(self, lost_before_s: float) -> Mapping[str, int]:
        """Why devices are not of the fleet -> number of devices; an empty reason for the devices of the fleet."""
        self.flush()
        why = why_apart(lost_before_s).label("why")
        counted = sa.select(why, sa.func.count()).select_from(devices).group_by("why")
        return {str(row[0]): int(row[1]) for row in self._connection.execute(counted)}

    def device_offers(self, lost_before_s: float) -> Mapping[tuple[str, str], int]:
        """(Task types, codecs) that a device of the fleet offers -> number of devices; argument as for ``fleet``."""
        self.flush()
        offer = (devices.c.task_types, devices.c.codecs)
        ours = sa.select(*offer, sa.func.count()).where(why_apart(lost_before_s) == "").group_by(*offer)
        rows = self._connection.execute(ours.limit(STATES_TOLD_APART))
        return {(task_types, codecs): many for task_types, codecs, many in rows}

    # Effects and counters

    def add_effect(self, effect: PendingEffect) -> int:
        """Insert an effect; returns its number."""
        number = next(self._effect_numbers)
        self._effects.append((number, effect))
        return number

    def begin_effects(self) -> list[tuple[int, PendingEffect, int]]:
        """Pending effects in order, each with the number of processes that have started it, including this one."""
        self.flush()
        self._connection.execute(sa.update(effects).values(begun=effects.c.begun + 1))
        query = sa.select(effects.c.number, effects.c.body, effects.c.begun).order_by(effects.c.number)
        return [(number, EFFECTS.decode(body), begun) for number, body, begun in self._connection.execute(query)]

    def remove_effects(self, numbers: Sequence[int]) -> None:
        """Delete effects that are done."""
        if numbers:
            self.flush()
            which = effects.c.number == sa.bindparam("done")
            self._connection.execute(sa.delete(effects).where(which), [{"done": number} for number in numbers])

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._counts[name] += amount

    # Small facts

    def rhythm(self) -> Rhythm:
        """The rhythm of the population: when devices check in, and how long rounds take."""
        if self._rhythm is None:
            self._rhythm = self._fact(RHYTHM, Rhythm) or Rhythm()
        return self._rhythm

    def save_rhythm(self, rhythm: Rhythm) -> None:
        """Replace the rhythm."""
        self._rhythm, self._rhythm_changed = rhythm, True

    def held_out_text(self) -> str:
        """Hash of the held-out text that versions were last measured on; empty if there was none."""
        return self._fact(HELD_OUT_TEXT, str) or ""

    def save_held_out_text(self, sha256: str) -> None:
        """Replace the hash of the held-out text; existing versions were measured on another text."""
        self._save_fact(HELD_OUT_TEXT, sha256)
        self._save_fact(MEASURED_SINCE, self.last_version_number())

    def measured_since(self) -> int:
        """Versions with a number higher than this were measured on the current held-out text."""
        number = self._fact(MEASURED_SINCE, int)
        return -1 if number is None else number

    def baselines(self) -> KeptBaselines | None:
        """The measured baselines; None unless they were measured on the current held-out text."""
        kept = self._fact(BASELINES, KeptBaselines)
        return None if kept is None or kept.measured.text_sha256 != self.held_out_text() else kept

    def save_baselines(self, kept: KeptBaselines) -> None:
        """Replace the measured baselines."""
        self._save_fact(BASELINES, kept)

    def releases(self) -> Releases:
        """All releases of the agent, the oldest version first."""
        return self._fact(RELEASES, Releases) or ()

    def save_releases(self, releases: Releases) -> None:
        """Replace the releases."""
        self._save_fact(RELEASES, releases)

    def release_files(self) -> dict[str, str]:
        """The releases' metadata that the owner signed: file name -> sha256 of the artifact."""
        return self._fact(RELEASE_FILES, dict[str, str]) or {}

    def save_release_files(self, files: Mapping[str, str]) -> None:
        """Replace the names of the metadata that the owner signed."""
        self._save_fact(RELEASE_FILES, files)

    def disk_points(self) -> tuple[DiskPoint, ...]:
        """The measurements of the leader's disk, in the order in which they were made."""
        return self._fact(DISK_POINTS, tuple[DiskPoint, ...]) or ()

    def save_disk_points(self, points: tuple[DiskPoint, ...]) -> None:
        """Replace the measurements of the disk."""
        self._save_fact(DISK_POINTS, points)

    def trusted_time(self) -> float | None:
        """The newest trusted time that was made durable; None before the first."""
        return self._fact(TRUSTED_TIME, float)

    def save_trusted_time(self, seconds: float) -> None:
        """Replace the newest trusted time."""
        self._save_fact(TRUSTED_TIME, seconds)

    def signed_programs(self) -> dict[str, SignedProgram]:
        """The owner's signatures of programs, by the hash of the program; the oldest first."""
        return self._fact(SIGNED_PROGRAMS, dict[str, SignedProgram]) or {}

    def keep_signed_program(self, signed: SignedProgram) -> None:
        """Keep the owner's signatures of a program; they replace earlier ones."""
        held = self.signed_programs()
        if held.get(signed.program) != signed:
            self._save_fact(SIGNED_PROGRAMS, held | {signed.program: signed})

    def settings(self) -> dict[str, str] | None:
        """The settings at the last start; None before the first."""
        return self._fact(SETTINGS, dict[str, str])

    def save_settings(self, settings: Mapping[str, str]) -> None:
        """Replace the settings."""
        self._save_fact(SETTINGS, settings)

    def labelling(self) -> Labelling:
        """The rules for labels."""
        return self._fact(LABELLING, Labelling) or Labelling()

    def save_labelling(self, labelling: Labelling) -> None:
        """Replace the rules for labels."""
        self._save_fact(LABELLING, labelling)

    def draw_number(self, now_s: float) -> int:
        """Draw the number of the next orders; based on the clock in milliseconds, so that it needs no backup."""
        number = max((self._fact(ORDER_NUMBER, int) or 0) + 1, int(now_s * 1000))
        self._save_fact(ORDER_NUMBER, number)
        return number

    def _fact(self, name: str, kind: type[_Fact]) -> _Fact | None:
        value = self._connection.scalar(_FACT, {"of": name})
        return None if value is None else msgspec.json.decode(value, type=kind)

    def _save_fact(self, name: str, value: object) -> None:
        self._put(facts, [{"name": name, "value": msgspec.json.encode(value)}])

    def add_audit(self, entry: AuditEntry) -> None:
        """Add an audit entry; the database assigns its number."""
        note(self._connection, entry.at_s, entry.who, entry.action, entry.target, entry.before, entry.after)

    def _scalar(self, query: sa.Select[Any]) -> int:
        return int(self._connection.scalar(query) or 0)


def _of_report(round_number: int, device: DeviceId, attempt: int) -> sa.ColumnElement[bool]:
    return (chunks.c.round == round_number) & (chunks.c.device == device) & (chunks.c.attempt == attempt)


_ROUNDS = sa.select(rounds.c.state)
# Every message reads or writes these; SQLAlchemy takes longer to build a statement than to run it.
_DEVICE = sa.select(devices).where(devices.c.device == sa.bindparam("of"))
_FACT = sa.select(facts.c.value).where(facts.c.name == sa.bindparam("of"))
_ADD_REPORTS, _ADD_FRAMES = sa.insert(reports), sa.insert(report_frames)


def _task(state: bytes, settings: bytes) -> TaskRecord:
    return TaskRecord(state=_TASK.decode(state), settings=_SETTINGS.decode(settings))


def _round_row(state: Round) -> dict[str, Any]:
    return {
        "number": state.number,
        "task": state.task,
        "phase": state.phase.value,
        "base_version": state.base_version,
        "state": msgspec.json.encode(state),
    }
