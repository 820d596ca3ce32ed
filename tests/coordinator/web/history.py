"""A day in the life of a small fleet, written straight into a database: what the pages are looked at with."""

from __future__ import annotations

import math

from msgspec.structs import replace

from nightjar.coordinator.learning.device_metrics import Tally, keystrokes, merged, tally
from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.rounds.round import AbandonCause, Phase, open_round
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.seats import Seat, SeatState
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fleet import Sample
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.versions.quality_gate import Example, VersionMetrics
from nightjar.coordinator.versions.releases import Release
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause

RULES = RoundRules(
    goal=20,
    minimum=10,
    over_selection=1.3,
    selection_window_s=1,
    selection_deadline_s=60,
    report_deadline_s=600,
    lost_grace_s=10,
)
DEVICES = [DeviceId(f"phone-{number:03}") for number in range(120)]
ROUNDS = 30
EXAMPLES = (
    Example("see you on the", "weekend", ("the", "a", "to")),
    Example("see you on the", "weekend", ("way", "weekend", "phone")),
)
REASONS = ("not charging", "in use", "metered network", "battery low")
CAUSES = (DropoutCause.IN_USE, DropoutCause.UNPLUGGED, DropoutCause.CONNECTION_LOST)


RELEASES = (
    Release(version="0.1.0", rollout=Rollout(stage=Stage.CURRENT, reason="all", since_s=5.0)),
    Release(version="0.2.0", rollout=Rollout(stage=Stage.ROLLED_BACK, reason="2 of 3 devices could not run it")),
    Release(
        version="0.3.0",
        rollout=Rollout(stage=Stage.CANARY, since_s=9.0),
        share=0.05,
        labels=("porch",),
        security=True,
        paused=True,
    ),
    Release(version="0.4.0", bundles={"nightjar-0.4.0-trixie-aarch64.tar": "a" * 64}),
)


def measured(version: int) -> Tally:
    """What eight devices found of a version: a little more than of the one before, and people differ."""
    saved = [300 + 60 * place + 2 * version for place in range(8)]
    keyboards = [KeyboardEvaluation(1000, each, version - 1, each - 6 + place) for place, each in enumerate(saved)]
    recalls = [LocalEvaluation(100, 20 + place, 40, 25 + place, 45, 5.0, 4.5) for place in range(8)]
    return merged(tally(recalls), keystrokes(keyboards))


def live_through(database: Database, manifest: str, weights: str, now_s: float) -> None:
    """Fill a database that holds version 0 and round 1 in selection."""
    begun_s = now_s - 20 * 3600
    with database.transaction() as tx:
        tx.save_releases(RELEASES)
        tx.save_version(replace(tx.version(0), metrics=VersionMetrics(0.12, 0.2, 6.2, examples=EXAMPLES[:1])))
        version = 0
        for number in range(1, ROUNDS + 1):
            opened_s = begun_s + number * 2300
            seats = {DEVICES[(number * 7 + place) % 120]: Seat(state=SeatState.REPORTED) for place in range(26)}
            for place, device in enumerate(list(seats)[::6]):
                seats[device] = Seat(state=SeatState.DROPPED, cause=CAUSES[(number + place) % 3])
            over = replace(
                open_round(number, version, RULES, 7, opened_s, task="keyboard"),
                phase=Phase.COMMITTED,
                seats=seats,
                started_at_s=opened_s + 40,
                closed_at_s=opened_s + 300 + 10 * (number % 7),
                version=version + 1,
            )
            if number % 9 == 4:
                reason = "waiting: 4 of 10 phones eligible; 80 not charging, 20 in use"
                cause = AbandonCause.TOO_FEW_DEVICES
                over = replace(over, phase=Phase.ABANDONED, version=None, seats={}, started_at_s=None, cause=cause)
                tx.save_round(replace(over, reason=reason))
                tx.count("rounds_abandoned:too-few-devices")
                continue
            tx.save_round(over)
            version += 1
            top1 = 0.12 + 0.16 * (1 - math.exp(-version / 9))
            tx.add_version(
                VersionRecord(
                    version=version,
                    task="keyboard",
                    manifest=manifest,
                    round=number,
                    created_s=opened_s + 300,
                    metrics=VersionMetrics(top1, 1.6 * top1, 6.2 - 2 * top1, examples=EXAMPLES[1:]),
                )
            )
            tx.save_federated(version, measured(version))
            for device, seat in seats.items():
                if seat.state is SeatState.REPORTED:
                    tx.add_report(report(number, device, opened_s + 200), b"frame")
                elif seat.cause is not None:
                    tx.count(f"dropouts:{seat.cause.value}")
        working = {device: Seat() for device in DEVICES[:26]}
        for device in DEVICES[:9]:
            working[device] = Seat(state=SeatState.REPORTED)
            tx.save_lease(Lease(device=device))
        working[DEVICES[9]] = Seat(lost_since_s=now_s - 8)
        tx.save_round(
            replace(
                open_round(ROUNDS + 1, version, RULES, 7, now_s - 90, task="keyboard"),
                phase=Phase.REPORTING,
                seats=working,
                working=17,
                reported=9,
                started_at_s=now_s - 70,
                deadline_s=now_s + 400,
            )
        )
        for device in DEVICES[:9]:
            tx.add_report(report(ROUNDS + 1, device, now_s - 10), b"frame")
        for number, device in enumerate(DEVICES):
            tx.save_lease(lease(number, device, weights, version, now_s))
        for minute in range(0, 20 * 60, 10):
            tx.add_sample(sample(begun_s + 60 * minute, minute, version), 7 * 86400)
        for name, amount in (("bytes_up", 9_400_000), ("bytes_down", 310_000_000), ("reports_late", 12)):
            tx.count(name, amount)
        tx.count("reports_invalid:norm", 2)
        tx.add_audit(
            AuditEntry(
                at_s=now_s - 4000,
                who="anna",
                action="block-device",
                target="phone-119",
                before="not blocked",
                after="blocked: a <b>board</b> that was lost",
            )
        )


def report(number: int, device: DeviceId, received_s: float) -> StoredReport:
    return StoredReport(
        round=number,
        device=device,
        attempt=1,
        sha256="0" * 64,
        size_bytes=11_000 + 37 * (hash(device) % 40),
        num_examples=240,
        steps=12,
        loss=4.2,
        seconds=31.5,
        norm=1.4,
        received_s=received_s,
    )


def lease(number: int, device: DeviceId, weights: str, version: int, now_s: float) -> Lease:
    state, reason = "ineligible", REASONS[number % 4]
    if number < 26:
        state, reason = "training", f"selected for round {ROUNDS + 1}"
    elif number < 40:
        state, reason = "checked-in", ""
    elif number < 52:
        state, reason = "resting", "come back in 300 s"
    elif number > 105:
        state, reason = "offline", ""
    return Lease(
        device=device,
        presence=Presence.AWAY if state == "offline" else Presence.PRESENT,
        state=state,
        reason=reason,
        last_seen_s=now_s - number * 3,
        agent_version="0.1.0",
        runtime="ai-edge-litert 2.3.0",
        weights=weights,
        version=version if number % 3 else 0,
        examples=200 + number,
        emulated=number % 5 == 0,
        last_round=ROUNDS + 1 if number < 9 else 20,
        rounds_counted=0b1011,
        blocked="a board that was lost" if number == 119 else "",
    )


def sample(at_s: float, minute: int, version: int) -> Sample:
    night = 0.5 + 0.5 * math.cos(2 * math.pi * (minute / 60 - 3) / 24)
    waiting, work = int(20 * night) + 2, int(18 * night)
    return Sample(
        at_s=at_s,
        groups={"waiting": waiting, "at work": work, "resting": 12, "not eligible": 70 - waiting - work, "offline": 36},
        holders={str(version): 80, "older": 30},
        reports=minute // 2,
        bytes_up=6000 * minute,
        bytes_down=200_000 * minute,
        busy=0.02 + 0.1 * night,
    )
