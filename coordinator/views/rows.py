"""What people see of rounds, versions, devices, releases and counters: in the API, on pages, on the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from nightjar.coordinator.learning.device_metrics import FederatedMetrics, Mean, Tally, figures
from nightjar.coordinator.records.rounds import RoundSummary
from nightjar.coordinator.records.versions import Lineage, VersionRecord
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.rounds.round import TERMINAL, Phase, Round, seat_round, seat_version
from nightjar.coordinator.rounds.waiting import doing, sentence
from nightjar.coordinator.rounds.week import spent
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.versions.releases import OUT, Release, ReleaseHealth


class DeviceView(msgspec.Struct, frozen=True):
    """A device's last known state; ``blocked`` is why an operator blocked it, or empty.

    ``taken_back`` is the newest agent release that did not work on it, with the reason, or empty; ``notice`` is what it
    said that its people should know though it goes on, or empty; ``apart`` is why it is not of the fleet: ``revoked``,
    ``blocked``, ``lost``, ``never heard of``, or empty.
    """

    device: str
    online: bool
    state: str
    reason: str
    last_seen_s_ago: float | None
    emulated: bool
    examples: int
    runtime: str
    blocked: str
    labels: str
    taken_back: str
    notice: str
    apart: str


class Occupation(msgspec.Struct, frozen=True):
    """What a device did for so many seconds of its last week: a lifecycle state, or why it was not eligible."""

    doing: str
    seconds: int


class DeviceDetail(DeviceView, frozen=True):
    """A device's last known state, and how it spent the last week, the longest first."""

    last_week: list[Occupation]


class RoundRow(msgspec.Struct, frozen=True):
    """A round, open or closed; ``version`` and the figures after it are None if there are none.

    ``cause`` is a code for why it was abandoned; empty if it was not.
    """

    number: int
    task: str
    phase: str
    cause: str
    reason: str
    selected: int
    accepted: int
    dropped: dict[str, int]
    seconds: float
    version: int | None
    top1: float | None
    top3: float | None
    loss: float | None
    mean_training_loss: float | None
    report_bytes_median: int | None


class SeatView(msgspec.Struct, frozen=True):
    """A selected device; ``cause`` is why it dropped, ``code`` why its report was refused.

    ``version`` is what it trains from, and ``round`` the one that its report names: in a buffered round an earlier one
    if its seat was carried over.
    """

    device: str
    round: int
    version: int
    attempt: int
    state: str
    cause: str | None
    code: str
    earlier: list[str]


class RoundDetail(RoundRow, frozen=True, kw_only=True):
    """A round with its seats.

    ``pool`` lists the devices that wait for it; ``elsewhere`` maps what the other devices do during selection to their
    number. ``deadline_in_s`` is the time left in the phase; 0 if the round is not waiting for devices.
    """

    base_version: int
    goal: int
    minimum: int
    pool: list[str]
    elsewhere: dict[str, int]
    deadline_in_s: float
    seats: list[SeatView]


class VersionRow(msgspec.Struct, frozen=True):
    """A version; ``stage`` is its rollout stage (docs/models.md), ``created`` is seconds since 1970."""

    version: int
    task: str
    parent: int | None
    stage: str
    manifest: str
    top1: float | None
    top3: float | None
    loss: float | None
    created: float
    pruned: float | None = None  # when its files were deleted; None while they are there


class VersionDetail(VersionRow, frozen=True, kw_only=True):
    """A version: its stage and the reason for it, its lineage, and its metrics.

    ``since`` is when it entered the stage, in seconds since 1970. ``federated`` is what devices measured: aggregated
    over all of them, never for one.
    """

    round: int | None
    reason: str
    since: float
    lineage: Lineage | None
    federated: FederatedMetrics


class Counters(msgspec.Struct, frozen=True):
    """Totals since the database was created."""

    rounds_committed: int
    rounds_abandoned: int
    rounds_abandoned_by_cause: dict[str, int]
    reports_accepted: int
    reports_duplicate: int
    reports_late: int
    reports_invalid: dict[str, int]
    dropouts: dict[str, int]
    bytes_up: int
    bytes_down: int
    report_bytes_median: int | None
    malformed_messages: int
    broker_dropped: int
    broker_sessions_lost: int
    broker_refused: int


def round_detail(
    view: DatabaseView, number: int, now_s: float, states: Mapping[tuple[str, str], int] | None = None
) -> RoundDetail | None:
    """A round, open or closed, with all its seats; None if there is none of this number.

    ``states``: (lifecycle state, reason) -> number of devices; None if they were not counted.
    """
    state = view.round(number)
    if state is None:
        return None
    reported = [(report.loss, report.num_examples, report.size_bytes) for report in view.reports(number)]
    made = None if state.version is None else view.version(state.version)
    seats = [
        SeatView(
            device=device,
            round=seat_round(state, seat),
            version=seat_version(state, seat),
            attempt=seat.attempt,
            state=seat.state.value,
            cause=None if seat.cause is None else seat.cause.value,
            code=seat.code,
            earlier=[cause.value for cause in seat.earlier],
        )
        for device, seat in sorted(state.seats.items())
    ]
    row = msgspec.structs.asdict(round_row(RoundSummary.of(state, reported), made, now_s))
    elsewhere = doing(states) if states and state.phase is Phase.SELECTION else {}
    waits = state.phase not in TERMINAL and state.phase is not Phase.COMMITTING
    if state.phase not in TERMINAL:
        row["reason"] = state.explain(sentence(elsewhere))
    return RoundDetail(
        **row,
        base_version=state.base_version,
        goal=state.rules.goal,
        minimum=state.rules.minimum,
        pool=sorted(state.pool),
        elsewhere=elsewhere,
        deadline_in_s=max(0.0, state.deadline_s - now_s) if waits else 0.0,
        seats=seats,
    )


def open_round_of(view: DatabaseView, record: TaskRecord) -> Round | None:
    """The open round of a task; None between two rounds."""
    return next((state for state in view.open_rounds() if state.task == record.name), None)


def why_not_active(record: TaskRecord) -> str:
    """Why a task opens no rounds, and who changed that; empty if it opens rounds."""
    state = record.state
    return f"{state.reason} ({state.who})" if state.who else state.reason


def device_row(lease: Lease, now_s: float, apart: str = "") -> DeviceView:
    """The view of a device; ``apart`` is why it is not of the fleet."""
    return DeviceView(
        device=lease.device,
        online=lease.online and not apart,
        state=lease.state,
        reason=lease.reason,
        last_seen_s_ago=max(0.0, now_s - lease.last_seen_s) if lease.last_seen_s else None,
        emulated=lease.emulated,
        examples=lease.examples,
        runtime=lease.runtime,
        blocked=lease.blocked,
        labels=lease.labels,
        taken_back=lease.taken_back,
        notice=lease.notice,
        apart=apart,
    )


def last_week(lease: Lease, now_s: float) -> list[Occupation]:
    """How a device spent its last week, the longest first."""
    total: Counter[str] = Counter()
    for spans in spent(lease.week, now_s).values():
        total.update(spans)
    return [Occupation(doing, seconds) for doing, seconds in total.most_common()]


def device_detail(lease: Lease, now_s: float, apart: str = "") -> DeviceDetail:
    """The detailed view of a device."""
    return DeviceDetail(**msgspec.structs.asdict(device_row(lease, now_s, apart)), last_week=last_week(lease, now_s))


def round_row(summary: RoundSummary, made: VersionRecord | None, now_s: float) -> RoundRow:
    """The view of a round; ``made`` is the version that it committed, if any."""
    metrics = None if made is None else made.metrics
    ended_s = now_s if summary.closed_at_s is None else summary.closed_at_s
    return RoundRow(
        number=summary.number,
        task=summary.task,
        phase=summary.phase.value,
        cause="" if summary.cause is None else summary.cause.value,
        reason=summary.reason,
        selected=summary.selected,
        accepted=summary.accepted,
        dropped=dict(summary.dropped),
        seconds=ended_s - summary.opened_at_s,
        version=summary.version,
        top1=None if metrics is None else metrics.top1,
        top3=None if metrics is None else metrics.top3,
        loss=None if metrics is None else metrics.loss,
        mean_training_loss=summary.mean_training_loss,
        report_bytes_median=summary.report_bytes_median,
    )


def version_row(record: VersionRecord) -> VersionRow:
    """The view of a version."""
    metrics = record.metrics
    return VersionRow(
        version=record.version,
        task=record.task,
        parent=None if record.lineage is None else record.lineage.parent,
        stage=record.rollout.stage.value,
        manifest=record.manifest,
        top1=None if metrics is None else metrics.top1,
        top3=None if metrics is None else metrics.top3,
        loss=None if metrics is None else metrics.loss,
        created=record.created_s,
        pruned=record.pruned_s,
    )


def recall_on_devices(tallies: Mapping[int, Tally]) -> dict[int, float]:
    """Mean top-1 recall that devices measured, by version; versions that none measured are left out."""
    found = {number: figures(tally).top1_before for number, tally in tallies.items()}
    return {number: spread.mean for number, spread in found.items() if spread is not None}


def saved_on_devices(tallies: Mapping[int, Tally]) -> dict[int, Mean]:
    """Keystrokes that devices' keyboards save, in percent, by version; versions that none measured are left out."""
    found = {number: figures(tally).saved for number, tally in tallies.items()}
    return {number: mean for number, mean in found.items() if mean is not None}


def version_detail(record: VersionRecord, tally: Tally) -> VersionDetail:
    """The detailed view of a version."""
    return VersionDetail(
        **msgspec.structs.asdict(version_row(record)),
        round=record.round,
        reason=record.rollout.reason,
        since=record.rollout.since_s,
        lineage=record.lineage,
        federated=figures(tally),
    )


def counters(view: DatabaseView) -> Counters:
    """The view of all counters."""
    counted = view.counters()
    return Counters(
        rounds_committed=view.rounds_in(Phase.COMMITTED),
        rounds_abandoned=view.rounds_in(Phase.ABANDONED),
        rounds_abandoned_by_cause=by_label(counted, "rounds_abandoned"),
        reports_accepted=view.accepted_reports(),
        reports_duplicate=counted.get("reports_duplicate", 0),
        reports_late=counted.get("reports_late", 0),
        reports_invalid=by_label(counted, "reports_invalid"),
        dropouts=by_label(counted, "dropouts"),
        bytes_up=counted.get("bytes_up", 0),
        bytes_down=counted.get("bytes_down", 0),
        report_bytes_median=view.report_bytes_median(),
        malformed_messages=counted.get("malformed_messages", 0),
        broker_dropped=counted.get("broker_dropped", 0),
        broker_sessions_lost=counted.get("broker_sessions_lost", 0),
        broker_refused=counted.get("broker_refused", 0),
    )


def by_label(counted: Mapping[str, int], stored: str) -> dict[str, int]:
    """The counters stored under one name, by label; zeros are left out.

    >>> by_label({"dropouts:in-use": 3, "dropouts:other": 0, "bytes_up": 9}, "dropouts")
    {'in-use': 3}
    """
    prefix = f"{stored}:"
    return {name[len(prefix) :]: value for name, value in sorted(counted.items()) if name.startswith(prefix) and value}


class ReleaseView(Release, frozen=True, kw_only=True):
    """A release of the agent; ``health`` is that of its devices while it is on trial or current."""

    health: ReleaseHealth | None = None


def release_views(view: DatabaseView, now_s: float) -> list[ReleaseView]:
    """All releases, newest version first."""
    return [release_view(view, release, now_s) for release in reversed(view.releases())]


def release_view(view: DatabaseView, release: Release, now_s: float) -> ReleaseView:
    """A release, with the health of its devices."""
    health = view.release_health(release, now_s) if release.rollout.stage in OUT else None
    return ReleaseView(**msgspec.structs.asdict(release), health=health)
