"""Queries for people: lists, totals and the history of the fleet; the part of a database view that the pages read.

No query gets slower with more rounds or devices: lists use keyset pagination (never an offset), totals are maintained
incrementally, and a search examines a bounded number of rows and returns where it stopped. Only the census counts all
devices (:mod:`nightjar.coordinator.storage.census` limits how often).
"""

from __future__ import annotations

import abc
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from nightjar.coordinator.records.rounds import RoundSummary, StoredReport
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.rounds.round import TERMINAL, Phase, Round
from nightjar.coordinator.storage.apart import why_apart
from nightjar.coordinator.storage.fleet import Sample
from nightjar.coordinator.storage.tables import audit, counters, devices, reports, round_summaries, rounds, samples
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.versions.releases import SILENT_S, DeviceGroup, Release, ReleaseHealth, is_offered_to
from nightjar.coordinator.versions.rollout import Stage
from nightjar.wire.identifiers import DeviceId

_Condition = sa.ColumnElement[bool]

MEDIAN_OF = 1000
"""Number of newest reports that the median covers, so that it stays cheap and current."""
ROWS_SEARCHED = 20_000
"""Devices that one search examines; the next page continues after them."""
VERSIONS_TOLD_APART = 50
"""Most versions that are counted separately; people do not look at more."""
LAST_CHARACTER = "\uffff"
"""Sorts after every character that a device's id may contain."""

_SUMMARY = msgspec.json.Decoder(RoundSummary)
_SAMPLE = msgspec.json.Decoder(Sample)
_ROUND = msgspec.json.Decoder(Round)


class HeardPosition(msgspec.Struct, frozen=True):
    """A position in the list of devices, which is sorted by when they were last heard from."""

    last_seen_s: float
    device: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Search criteria for devices; an empty one matches all."""

    name: str = ""  # prefix of the device id
    states: frozenset[str] = frozenset()  # lifecycle states
    reason: str | None = None  # reason for its state that the device gave
    blocked: bool = False  # whether to return only devices that an operator blocked
    apart: str | None = None  # why the device is not of the fleet; empty for devices of the fleet
    lost_before_s: float = 0.0  # devices last heard of before this time are lost
    version: int | None = None  # model version that the device holds
    label: str = ""  # a label of the device


class Reading(abc.ABC):
    """Queries for people in an open transaction."""

    _connection: sa.Connection

    @abc.abstractmethod
    def flush(self) -> None:
        """Write all buffered changes."""

    def release_health(self, release: Release, now_s: float) -> ReleaseHealth:
        """The devices that tried a release that is offered to them, and the others heard of since it was started."""
        self.flush()
        c = devices.c
        back = c.taken_back.startswith(f"{release.version}:", autoescape=True)
        tried = sa.or_(c.agent_version == release.version, back)
        silent = c.last_seen_s < now_s - SILENT_S
        heard = c.last_seen_s >= release.rollout.since_s - SILENT_S
        became = {
            "taken_back": back,
            "silent": sa.and_(sa.not_(back), silent),
            "trained": sa.and_(sa.not_(back), c.last_round > c.agent_round),
        }
        others = {"silent": silent, "trained": c.last_round > release.since_round}
        return ReleaseHealth(
            tried=self._offered_group(release, sa.and_(heard, tried), became),
            others=self._group(sa.and_(heard, sa.not_(tried)), others),
        )

    def _group(self, where: _Condition, became: Mapping[str, _Condition]) -> DeviceGroup:
        sums = (sa.func.coalesce(sa.func.sum(sa.case((each, 1), else_=0)), 0) for each in became.values())
        count, *counts = map(int, self._connection.execute(sa.select(sa.func.count(), *sums).where(where)).one())
        return DeviceGroup(devices=count, **dict(zip(became, counts, strict=True)))

    def _offered_group(self, release: Release, where: _Condition, became: Mapping[str, _Condition]) -> DeviceGroup:
        if release.rollout.stage is Stage.CURRENT:
            return self._group(where, became)  # it is offered to all, of whom there may be very many
        told = self._connection.execute(sa.select(devices.c.device, *became.values()).where(where))
        offered = [row[1:] for row in told if is_offered_to(release, row[0])]
        return DeviceGroup(
            devices=len(offered), **dict(zip(became, map(sum, zip(*offered, strict=True)), strict=False))
        )

    def devices_with(self, labels: Sequence[str]) -> list[DeviceId]:
        """The devices that have all of these labels, sorted by name."""
        self.flush()
        query = sa.select(devices.c.device).order_by(devices.c.device)
        return list(self._connection.scalars(query.where(*(_has(devices.c.labels, label) for label in labels))))

    # Rounds

    def recent_rounds(
        self, limit: int, before: int | None = None, phase: Phase | None = None, task: str | None = None
    ) -> list[RoundSummary]:
        """The newest rounds in ascending order, optionally only below the number ``before``, in a phase, of a task."""
        self.flush()
        summary = round_summaries.c.body
        state = sa.case((summary.is_(None), rounds.c.state))  # large; only open rounds lack a summary
        query = sa.select(summary, state).join_from(rounds, round_summaries, isouter=True)
        query = query.order_by(rounds.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(rounds.c.number < before)
        if phase is not None:
            query = query.where(rounds.c.phase == phase.value)
        if task is not None:
            query = query.where(rounds.c.task == task)
        rows = self._connection.execute(query).all()[::-1]
        return [
            summed_up(_ROUND.decode(state), self._connection) if body is None else _SUMMARY.decode(body)
            for body, state in rows
        ]

    def accepted_reports(self) -> int:
        """Number of accepted reports in all rounds."""
        self.flush()
        query = sa.select(counters.c.value).where(counters.c.name == "reports_accepted")
        return int(self._connection.scalar(query) or 0)

    def report_bytes_median(self) -> int | None:
        """Median size of the newest rounds' accepted reports, in bytes; None if there are none."""
        self.flush()
        newest = sa.select(reports.c.size_bytes).order_by(reports.c.round.desc()).limit(MEDIAN_OF).subquery()
        many = self._connection.scalar(sa.select(sa.func.count()).select_from(newest)) or 0
        if not many:
            return None
        in_the_middle = sa.select(newest).order_by(newest.c.size_bytes).offset((many - 1) // 2).limit(2 - many % 2)
        return int(statistics.mean(self._connection.scalars(in_the_middle)))

    def reports_of(self, device: DeviceId, round_numbers: Collection[int]) -> list[StoredReport]:
        """The accepted reports of a device in these rounds, newest first."""
        self.flush()
        query = sa.select(reports).where(reports.c.device == device, reports.c.round.in_(round_numbers))
        return self._fetch_reports(query.order_by(reports.c.round.desc()))

    def reports_in(self, round_number: int, chosen: Collection[DeviceId]) -> list[StoredReport]:
        """The accepted reports of these devices in a round."""
        self.flush()
        query = sa.select(reports).where(reports.c.round == round_number, reports.c.device.in_(chosen))
        return self._fetch_reports(query)

    def _fetch_reports(self, query: sa.Select[Any]) -> list[StoredReport]:
        return [StoredReport(**row) for row in self._connection.execute(query).mappings()]

    # Devices

    def leases(self, limit: int) -> list[Lease]:
        """The devices seen most recently, sorted by name."""
        self.flush()
        query = sa.select(devices).order_by(devices.c.last_seen_s.desc()).limit(limit)
        return sorted(self._fetch_leases(query), key=lambda lease: lease.device)

    def leases_after(self, limit: int, device: str, label: str = "") -> list[Lease]:
        """The devices whose names sort after ``device``, in ascending order; with ``label``, those that have it."""
        self.flush()
        query = sa.select(devices).where(devices.c.device > device).order_by(devices.c.device).limit(limit)
        return self._fetch_leases(query.where(_has(devices.c.labels, label)) if label else query)

    def search_devices(
        self, wanted: Wanted, limit: int, after: HeardPosition | None
    ) -> tuple[list[Lease], HeardPosition | None]:
        """Devices that match the criteria, the last heard from first; sorted by name if ``name`` or ``blocked`` is set.

        Returns:
            The devices, and the position to continue after; None if there are no more. There may be fewer than
            ``limit`` although more match, if the search stopped at its limit of rows.
        """
        self.flush()
        heard, name = devices.c.last_seen_s, devices.c.device
        rows = sa.select(devices)
        order: tuple[sa.ColumnElement[Any], ...] = (heard.desc(), name.desc())
        by_name = bool(wanted.name) or wanted.blocked  # blocked devices are few, and have their own index
        if by_name:
            # Compare bytes: in a locale's collation, names with the same prefix need not be adjacent.
            by_byte = name if self._connection.dialect.name == "sqlite" else name.collate("C")
            rows, order = rows.where(by_byte >= wanted.name, by_byte < wanted.name + LAST_CHARACTER), (by_byte.asc(),)
            rows = rows.where(devices.c.blocked != "") if wanted.blocked else rows
            rows = rows if after is None else rows.where(by_byte > after.device)
        elif after is not None:
            rows = rows.where(heard <= after.last_seen_s, (heard < after.last_seen_s) | (name < after.device))
        looked_at = rows.order_by(*order).limit(ROWS_SEARCHED).cte("looked_at")
        matching = sa.select(looked_at)
        if wanted.apart is not None:
            matching = matching.where(why_apart(wanted.lost_before_s, looked_at) == wanted.apart)
        if wanted.states:
            matching = matching.where(looked_at.c.state.in_(wanted.states))
        if wanted.reason is not None:
            matching = matching.where(looked_at.c.reason == wanted.reason)
        if wanted.version is not None:
            matching = matching.where(looked_at.c.version == wanted.version)
        if wanted.label:
            matching = matching.where(_has(looked_at.c.labels, wanted.label))
        leases = self._fetch_leases(matching.limit(limit))
        if len(leases) == limit:
            return leases, HeardPosition(leases[-1].last_seen_s, leases[-1].device)
        last = rows.with_only_columns(heard, name).order_by(*order).offset(ROWS_SEARCHED - 1).limit(1)
        row = self._connection.execute(last).first()
        return leases, None if row is None else HeardPosition(row.last_seen_s, row.device)

    def holders(self, since_s: float) -> dict[int, int]:
        """Version -> number of devices that report it, heard from since ``since_s``; the most common versions."""
        self.flush()
        many = sa.func.count().label("many")
        query = sa.select(devices.c.version, many).where(
            devices.c.last_seen_s >= since_s, devices.c.version.is_not(None)
        )
        query = query.group_by(devices.c.version).order_by(many.desc()).limit(VERSIONS_TOLD_APART)
        return {row.version: row.many for row in self._connection.execute(query)}

    def _fetch_leases(self, query: sa.Select[Any]) -> list[Lease]:
        return [lease_from(row) for row in self._connection.execute(query).mappings()]

    # The fleet over time

    def add_sample(self, sample: Sample, keep_s: float) -> None:
        """Store a sample, and delete samples that are more than ``keep_s`` older, or of a clock that was ahead."""
        row = {"at_s": sample.at_s, "body": msgspec.json.encode(sample)}
        kept = samples.c.at_s.between(sample.at_s - keep_s, sample.at_s)
        self._connection.execute(sa.delete(samples).where(sa.not_(kept)))
        self._connection.execute(sa.insert(samples).values(row))

    def samples(self, since_s: float, every_s: int) -> list[Sample]:
        """Samples since ``since_s``, oldest first: the first in each interval of ``every_s``, and the newest."""
        stretch = sa.cast(samples.c.at_s, sa.BigInteger) // every_s
        first = sa.select(sa.func.min(samples.c.at_s)).where(samples.c.at_s >= since_s).group_by(stretch)
        newest = sa.select(sa.func.max(samples.c.at_s)).where(samples.c.at_s >= since_s)
        chosen = samples.c.at_s.in_(sa.union(first, newest))
        query = sa.select(samples.c.body).where(chosen).order_by(samples.c.at_s)
        return [_SAMPLE.decode(body) for body in self._connection.scalars(query)]

    def counters(self) -> Mapping[str, int]:
        """All counters by name."""
        self.flush()
        rows = self._connection.execute(sa.select(counters.c.name, counters.c.value))
        return {row.name: row.value for row in rows}

    # Changes

    def audit(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The newest audit entries, newest first, optionally only those with a number below ``before``."""
        query = sa.select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.number < before)
        return [AuditEntry(**row) for row in self._connection.execute(query).mappings()]

    def last_audited(self, action: str) -> float | None:
        """When an action was last done; None if it never was."""
        newest = sa.select(sa.func.max(audit.c.at_s)).where(audit.c.action == action)
        last_s: float | None = self._connection.scalar(newest)
        return last_s

    def pulse(self) -> object:
        """A value that changes whenever the pages could look different; cheap enough to read every second."""
        over = [phase.value for phase in TERMINAL]
        open_now = sa.select(rounds.c.number, rounds.c.phase).where(rounds.c.phase.not_in(over))
        changed = self._connection.scalar(sa.select(sa.func.max(audit.c.number)))
        return self.counters(), self._connection.execute(open_now).all(), changed


def _has(labels: sa.ColumnElement[str], label: str) -> sa.ColumnElement[bool]:
    return (sa.literal(" ") + labels + sa.literal(" ")).contains(f" {label} ", autoescape=True)


def lease_from(row: sa.RowMapping) -> Lease:
    """A device's lease, from its row."""
    values: dict[str, Any] = {str(name): value for name, value in row.items()}
    return Lease(**{**values, "presence": Presence(values["presence"])})


def summed_up(state: Round, connection: sa.Connection) -> RoundSummary:
    """The summary of a round, whose reports must be written first."""
    columns = (reports.c.loss, reports.c.num_examples, reports.c.size_bytes)
    figures = connection.execute(sa.select(*columns).where(reports.c.round == state.number))
    return RoundSummary.of(state, [(loss, examples, size) for loss, examples, size in figures])
