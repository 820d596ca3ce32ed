"""Fills a coordinator's database with years of devices, rounds and reports, through the coordinator's own code."""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.rounds.round import AbandonCause, Phase, open_round
from nightjar.coordinator.rounds.rules import rules_for
from nightjar.coordinator.rounds.seats import Seat, SeatState
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fleet import Sample
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause

ROUND_EVERY_S = 900.0
ABANDONED_EACH = 20
"""One in this many rounds is abandoned."""
DAY_S = 86400.0
ROUNDS_AT_ONCE = 20
DEVICES_AT_ONCE = 10_000
AUDIT_ENTRIES = 1000
STATES = (
    ("ineligible", "not charging"),
    ("ineligible", "in use"),
    ("ineligible", "metered network"),
    ("resting", "come back in 300 s"),
    ("offline", ""),
    ("checked-in", ""),
)


class Size(msgspec.Struct, frozen=True):
    """Number of devices, rounds and reports; the reports are divided among the committed rounds."""

    devices: int
    rounds: int
    reports: int


def fill(database: Database, size: Size, task: str, weights: str, now_s: float) -> None:
    """Fill the database of a coordinator that is not running; it holds version 0 and at most one open round.

    Most devices hold ``weights``, the hash of those of version 0. All history is before ``now_s``, wall-clock time.
    """
    with database.transaction() as tx:
        imported = tx.version(0)
        if imported is None:
            msg = "the database holds no version yet"
            raise ValueError(msg)
        for state in tx.open_rounds():
            over = {"phase": Phase.ABANDONED, "closed_at_s": now_s, "cause": AbandonCause.CALLED_OFF}
            tx.save_round(replace(state, **over, reason="filled with history"))
        first = tx.last_round_number() + 1
    names = [DeviceId(f"device-{number:06}") for number in range(size.devices)]
    for at in range(0, size.devices, DEVICES_AT_ONCE):
        with database.transaction() as tx:
            for number in range(at, min(at + DEVICES_AT_ONCE, size.devices)):
                tx.save_lease(_lease(number, names[number], weights, now_s))
    history = _History(size, names, task, imported.manifest, now_s)
    for at in range(0, size.rounds, ROUNDS_AT_ONCE):
        with database.transaction() as tx:
            for offset in range(at, min(at + ROUNDS_AT_ONCE, size.rounds)):
                history.add(tx, first + offset, offset)
    with database.transaction() as tx:
        for minute in range(24 * 60):
            tx.add_sample(_sample(now_s - DAY_S + 60.0 * minute, minute, history.version, size), 7 * DAY_S)
        for number in range(AUDIT_ENTRIES):
            at_s, target = now_s - DAY_S + number, names[number % size.devices]
            tx.add_audit(
                AuditEntry(
                    at_s=at_s, who="anna", action="block-device", target=target, before="not blocked", after="blocked"
                )
            )
        tx.count("bytes_up", 12_000 * size.reports)
        tx.count("bytes_down", 40_000 * size.reports)


class _History:
    """Writes rounds with their reports and versions, in order; ``version`` is the newest."""

    def __init__(self, size: Size, names: list[DeviceId], task: str, manifest: str, now_s: float) -> None:
        self._size, self._names, self._task, self._manifest, self._now_s = size, names, task, manifest, now_s
        self.version = 0
        self._cohort = -(-size.reports // (size.rounds - size.rounds // ABANDONED_EACH))
        self._rules = rules_for(
            goal=self._cohort,
            minimum=1,
            over_selection=1.0,
            selection_deadline_s=60.0,
            report_deadline_s=600.0,
        )
        self._left = size.reports

    def add(self, tx: DatabaseView, number: int, offset: int) -> None:
        """Write a round, its reports and its version."""
        opened_s = self._now_s - (self._size.rounds - offset) * ROUND_EVERY_S
        state = open_round(number, self.version, self._rules, 7, opened_s, task=self._task)
        if offset % ABANDONED_EACH == ABANDONED_EACH - 1:
            reason = "waiting: 3 of 10 phones eligible; 80,000 not charging"
            cause = AbandonCause.TOO_FEW_DEVICES
            tx.save_round(replace(state, phase=Phase.ABANDONED, closed_at_s=opened_s + 60, cause=cause, reason=reason))
            tx.count(f"rounds_abandoned:{cause.value}")
            return
        many = min(self._cohort, self._left)
        self._left -= many
        begin = offset * self._cohort
        chosen = [self._names[(begin + place) % len(self._names)] for place in range(min(many, len(self._names)))]
        seats = dict.fromkeys(chosen, Seat(state=SeatState.REPORTED))
        for place in range(many // 20):
            lost = self._names[(begin + many + place) % len(self._names)]
            if lost not in seats:
                seats[lost] = Seat(state=SeatState.DROPPED, cause=DropoutCause.UNPLUGGED)
                tx.count("dropouts:unplugged")
        closed_s = opened_s + 400
        over = {"phase": Phase.COMMITTED, "started_at_s": opened_s + 60, "closed_at_s": closed_s}
        tx.save_round(replace(state, **over, seats=seats, reported=len(chosen), version=self.version + 1))
        for device in chosen:
            tx.add_report(_report(number, device, closed_s - 60), b"")
        self.version += 1
        top1 = 0.1 + 0.15 * (1 - math.exp(-self.version / 200))
        tx.add_version(
            VersionRecord(
                version=self.version,
                task=self._task,
                manifest=self._manifest,
                round=number,
                created_s=closed_s,
                metrics=VersionMetrics(top1, 1.7 * top1, 6.5 - 4 * top1),
            )
        )


def _report(number: int, device: DeviceId, received_s: float) -> StoredReport:
    return StoredReport(
        round=number,
        device=device,
        attempt=1,
        sha256="0" * 64,
        size_bytes=12_000,
        num_examples=200,
        steps=10,
        loss=4.5,
        seconds=30.0,
        norm=1.5,
        received_s=received_s,
    )


def _lease(number: int, device: DeviceId, weights: str, now_s: float) -> Lease:
    state, reason = STATES[number % len(STATES)]
    return Lease(
        device=device,
        presence=Presence.AWAY if state == "offline" else Presence.PRESENT,
        state=state,
        reason=reason,
        last_seen_s=now_s - number * 0.5,
        agent_version="0.1.0",
        runtime="ai-edge-litert 2.3.0",
        weights=weights if number % 4 else "f" * 64,
        examples=100 + number % 900,
        last_round=2 + number % 1000,
        rounds_counted=0b1001,
    )


def _sample(at_s: float, minute: int, version: int, size: Size) -> Sample:
    waiting = int(size.devices * (0.05 + 0.04 * math.sin(minute / 229)))
    return Sample(
        at_s=at_s,
        groups={
            "waiting": waiting,
            "at work": 900,
            "resting": 4000,
            "not eligible": size.devices // 2,
            "offline": 9000,
        },
        holders={str(version): size.devices // 2, "older": size.devices // 3},
        reports=size.reports - 60 * (1440 - minute),
        bytes_up=12_000 * (size.reports - 60 * (1440 - minute)),
        bytes_down=40_000 * (size.reports - 60 * (1440 - minute)),
        busy=0.3,
    )
