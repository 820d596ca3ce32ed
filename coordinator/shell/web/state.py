"""The one document that the status page, ``/api/state`` and the demo's live view show."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coordinator.config import CoordinatorConfig
from coordinator.core.lease import Lease
from coordinator.core.round import TERMINAL, Phase, Round, SeatState, dropouts
from coordinator.core.waiting import doing, sentence
from coordinator.operations import Pause
from coordinator.ports import RoundSummary, VersionRecord, View
from models.manifest import Manifest

ROUNDS_SHOWN = 200
VERSIONS_SHOWN = 1000
DEVICES_SHOWN = 500


class BaselineView(msgspec.Struct, frozen=True):
    """A recall to compare with."""

    label: str
    top1: float
    top3: float


class TaskView(msgspec.Struct, frozen=True):
    """What is learned; ``rounds_wanted`` 0 means endless.

    ``state`` is running, paused or done; ``paused`` is why and by whom, or empty. A round may still run to its end.
    """

    name: str
    state: str
    paused: str
    rounds_wanted: int
    version: int
    parameters: int
    dense_bytes: int
    codec: str
    density: float | None
    baseline: BaselineView | None


class RoundView(msgspec.Struct, frozen=True):
    """The open round; ``dropped`` is device -> cause, ``reason`` says what it waits for.

    ``elsewhere`` is what the devices do that do not wait for it -> how many do so.
    """

    number: int
    phase: str
    reason: str
    goal: int
    minimum: int
    selected: list[str]
    reported: list[str]
    dropped: dict[str, str]
    pool: list[str]
    elsewhere: dict[str, int]
    deadline_in_s: float


class DeviceView(msgspec.Struct, frozen=True):
    """A device as last heard of; ``blocked`` is why an operator shut it out, or empty."""

    device: str
    online: bool
    state: str
    reason: str
    last_seen_s_ago: float | None
    emulated: bool
    examples: int
    runtime: str
    blocked: str


class RoundRow(msgspec.Struct, frozen=True):
    """A round that is over or open; ``version`` and the figures after it are None where there are none.

    ``cause`` is why it was abandoned, for counting; empty if it was not.
    """

    number: int
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
    """A selected device; ``cause`` is why it dropped, ``code`` why its report was refused."""

    device: str
    attempt: int
    state: str
    cause: str | None
    code: str
    earlier: list[str]


class RoundDetail(RoundRow, frozen=True, kw_only=True):
    """A round with its seats."""

    base_version: int
    seats: list[SeatView]


class VersionRow(msgspec.Struct, frozen=True):
    """A version; ``created`` is seconds since 1970."""

    version: int
    manifest: str
    top1: float | None
    top3: float | None
    loss: float | None
    created: float


class Counters(msgspec.Struct, frozen=True):
    """Sums since the database was made."""

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


class State(msgspec.Struct, frozen=True):
    """Everything. ``round`` is None when the task is done."""

    population: str
    task: TaskView
    round: RoundView | None
    devices: list[DeviceView]
    rounds: list[RoundRow]
    versions: list[VersionRow]
    counters: Counters
    broker: str
    uptime_s: float


def build_state(
    view: View, config: CoordinatorConfig, manifest: Manifest, broker: str, now_s: float, uptime_s: float
) -> State:
    """Put the document together.

    Args:
        view: an open transaction.
        config: the whole configuration.
        manifest: of any version.
        broker: its name.
        now_s: wall-clock time.
        uptime_s: of this process.
    """
    current = view.open_round()
    versions = view.versions(VERSIONS_SHOWN)
    return State(
        population=config.population,
        task=_task(config, manifest, versions, view.pause(), running=not _done(config, view, current)),
        round=None if current is None else _round(current, _elsewhere(view, current), now_s),
        devices=[device_row(lease, now_s) for lease in view.leases(DEVICES_SHOWN)],
        rounds=_rows(view.recent_rounds(ROUNDS_SHOWN), versions, now_s),
        versions=[version_row(record) for record in versions],
        counters=_counters(view),
        broker=broker,
        uptime_s=uptime_s,
    )


def find_round(view: View, number: int) -> RoundSummary | None:
    """A round of any age, with the figures of its reports."""
    state = view.round(number)
    if state is None:
        return None
    return RoundSummary.of(state, [(r.loss, r.num_examples, r.size_bytes) for r in view.reports(number)])


def round_detail(summary: RoundSummary, now_s: float) -> RoundDetail:
    """One round with each of its seats."""
    seats = [
        SeatView(
            device=device,
            attempt=seat.attempt,
            state=seat.state.value,
            cause=None if seat.cause is None else seat.cause.value,
            code=seat.code,
            earlier=[cause.value for cause in seat.earlier],
        )
        for device, seat in sorted(summary.state.seats.items())
    ]
    row = msgspec.structs.asdict(round_row(summary, None, now_s))
    return RoundDetail(**row, base_version=summary.state.base_version, seats=seats)


def _done(config: CoordinatorConfig, view: View, current: Round | None) -> bool:
    """Also before the first round is opened there is none, so that alone does not tell."""
    wanted = config.task.rounds
    return current is None and 0 < wanted <= view.rounds_in(Phase.COMMITTED)


def _task(
    config: CoordinatorConfig, manifest: Manifest, versions: list[VersionRecord], pause: Pause | None, *, running: bool
) -> TaskView:
    task, baseline = config.task, config.task.baseline
    return TaskView(
        name=task.name,
        state="paused" if pause is not None else "running" if running else "done",
        paused="" if pause is None else f"{pause.reason} ({pause.who})",
        rounds_wanted=task.rounds,
        version=versions[-1].version if versions else 0,
        parameters=manifest.layout.size,
        dense_bytes=4 * manifest.layout.size,
        codec=task.codec.name,
        density=None if task.codec.name.startswith("dense") else task.codec.density,
        baseline=None if baseline is None else BaselineView(baseline.label, baseline.top1, baseline.top3),
    )


def _elsewhere(view: View, current: Round) -> dict[str, int]:
    # Counting all devices is not free, and only who waits for devices asks where they are.
    return doing(view.device_states()) if current.phase is Phase.SELECTION else {}


def _round(state: Round, elsewhere: dict[str, int], now_s: float) -> RoundView:
    return RoundView(
        number=state.number,
        phase=state.phase.value,
        reason=state.explain(sentence(elsewhere)),
        goal=state.rules.goal,
        minimum=state.rules.minimum,
        selected=sorted(state.seats),
        reported=[str(device) for device in state.devices(SeatState.REPORTED)],
        dropped={device: seat.cause.value for device, seat in sorted(state.seats.items()) if seat.cause is not None},
        pool=sorted(state.pool),
        elsewhere=elsewhere,
        deadline_in_s=max(0.0, state.deadline_s - now_s) if state.phase is not Phase.COMMITTING else 0.0,
    )


def device_row(lease: Lease, now_s: float) -> DeviceView:
    """A device as people see it."""
    return DeviceView(
        device=lease.device,
        online=lease.online,
        state=lease.state,
        reason=lease.reason,
        last_seen_s_ago=max(0.0, now_s - lease.last_seen_s) if lease.last_seen_s else None,
        emulated=lease.emulated,
        examples=lease.examples,
        runtime=lease.runtime,
        blocked=lease.blocked,
    )


def _rows(summaries: list[RoundSummary], versions: list[VersionRecord], now_s: float) -> list[RoundRow]:
    made = {record.version: record for record in versions}
    return [
        round_row(summary, made.get(summary.state.version) if summary.state.version is not None else None, now_s)
        for summary in summaries
    ]


def round_row(summary: RoundSummary, made: VersionRecord | None, now_s: float) -> RoundRow:
    """A round as people see it; ``made`` is the version that it committed."""
    state = summary.state
    metrics = None if made is None else made.metrics
    ended_s = now_s if state.closed_at_s is None else state.closed_at_s
    return RoundRow(
        number=state.number,
        phase=state.phase.value,
        cause="" if state.cause is None else state.cause.value,
        reason=state.reason if state.phase in TERMINAL else state.explain(),
        selected=len(state.seats),
        accepted=len(state.devices(SeatState.REPORTED)),
        dropped={
            cause.value: count for cause, count in sorted(dropouts(state).items(), key=lambda item: item[0].value)
        },
        seconds=ended_s - state.opened_at_s,
        version=state.version,
        top1=None if metrics is None else metrics.top1,
        top3=None if metrics is None else metrics.top3,
        loss=None if metrics is None else metrics.loss,
        mean_training_loss=summary.mean_training_loss,
        report_bytes_median=summary.report_bytes_median,
    )


def version_row(record: VersionRecord) -> VersionRow:
    """A version as people see it."""
    metrics = record.metrics
    return VersionRow(
        version=record.version,
        manifest=record.manifest,
        top1=None if metrics is None else metrics.top1,
        top3=None if metrics is None else metrics.top3,
        loss=None if metrics is None else metrics.loss,
        created=record.created_s,
    )


def _counters(view: View) -> Counters:
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
    """The counters that were kept under one name, one for each label, without those that are 0.

    >>> by_label({"dropouts:in-use": 3, "dropouts:other": 0, "bytes_up": 9}, "dropouts")
    {'in-use': 3}
    """
    prefix = f"{stored}:"
    return {name[len(prefix) :]: value for name, value in sorted(counted.items()) if name.startswith(prefix) and value}
