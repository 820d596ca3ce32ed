"""``/api/state``: the one document that the demo's live view shows. The API has the rest, in pages."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coordinator.config import CoordinatorConfig
from coordinator.core.lease import Lease
from coordinator.core.round import Phase, Round
from coordinator.core.seats import SeatState
from coordinator.core.task import Status
from coordinator.core.waiting import doing, sentence
from coordinator.ports import RoundSummary, TaskRecord, VersionRecord, View
from models.manifest import Manifest
from wire.errors import UnavailableError

ROUNDS_SHOWN = 100
VERSIONS_SHOWN = 1000
DEVICES_SHOWN = 200


class BaselineView(msgspec.Struct, frozen=True):
    """A recall to compare with."""

    label: str
    top1: float
    top3: float


class TaskView(msgspec.Struct, frozen=True):
    """What is learned; ``rounds_wanted`` 0 means endless.

    ``state`` is active, paused, stopped or finished; ``paused`` is why and by whom, or empty. A round may still run to
    its end.
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
    """A device as last heard of; ``blocked`` is why an operator shut it out, or empty.

    ``taken_back`` is the newest release of the agent that did not work there, with its reason, or empty.
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
    taken_back: str


class RoundRow(msgspec.Struct, frozen=True):
    """A round that is over or open; ``version`` and the figures after it are None where there are none.

    ``cause`` is why it was abandoned, for counting; empty if it was not.
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
    """A version; ``stage`` is where it is (docs/models.md), ``created`` is seconds since 1970."""

    version: int
    task: str
    parent: int | None
    stage: str
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
    view: View,
    config: CoordinatorConfig,
    manifest: Manifest,
    broker: str,
    now_s: float,
    uptime_s: float,
    states: Mapping[tuple[str, str], int],
) -> State:
    """Put the document together.

    Args:
        view: an open transaction.
        config: the whole configuration.
        manifest: of any version.
        broker: its name.
        now_s: wall-clock time.
        uptime_s: of this process.
        states: (lifecycle state, reason) -> devices.
    """
    record = view.task(config.task.name)
    if record is None:
        msg = "the service has not taken up its task yet"
        raise UnavailableError(msg)
    current = open_round_of(view, record)
    versions = view.versions(VERSIONS_SHOWN, task=record.name)
    return State(
        population=config.population,
        task=_task(config, manifest, view.current_version(record.name), record),
        round=None if current is None else _round(current, _elsewhere(states, current), now_s),
        devices=[device_row(lease, now_s) for lease in view.leases(DEVICES_SHOWN)],
        rounds=_rows(view.recent_rounds(ROUNDS_SHOWN), versions, now_s),
        versions=[version_row(record) for record in versions],
        counters=_counters(view),
        broker=broker,
        uptime_s=uptime_s,
    )


def round_detail(view: View, number: int, now_s: float) -> RoundDetail | None:
    """One round of any age with each of its seats; None if there is none of that number."""
    state = view.round(number)
    if state is None:
        return None
    figures = [(report.loss, report.num_examples, report.size_bytes) for report in view.reports(number)]
    made = None if state.version is None else view.version(state.version)
    seats = [
        SeatView(
            device=device,
            attempt=seat.attempt,
            state=seat.state.value,
            cause=None if seat.cause is None else seat.cause.value,
            code=seat.code,
            earlier=[cause.value for cause in seat.earlier],
        )
        for device, seat in sorted(state.seats.items())
    ]
    row = msgspec.structs.asdict(round_row(RoundSummary.of(state, figures), made, now_s))
    return RoundDetail(**row, base_version=state.base_version, seats=seats)


def open_round_of(view: View, record: TaskRecord) -> Round | None:
    """The round of a task that is not over; None between two."""
    return next((state for state in view.open_rounds() if state.task == record.name), None)


def why_not_active(record: TaskRecord) -> str:
    """Why a task opens no rounds, and who made it so; empty if it does."""
    state = record.state
    return f"{state.reason} ({state.who})" if state.who else state.reason


def _task(config: CoordinatorConfig, manifest: Manifest, out: VersionRecord | None, record: TaskRecord) -> TaskView:
    task, baseline = config.task, config.task.baseline
    return TaskView(
        name=task.name,
        state=record.state.status.value,
        paused=why_not_active(record) if record.state.status is Status.PAUSED else "",
        rounds_wanted=task.rounds,
        version=0 if out is None else out.version,
        parameters=manifest.layout.size,
        dense_bytes=4 * manifest.layout.size,
        codec=task.codec.name,
        density=None if task.codec.name.startswith("dense") else task.codec.density,
        baseline=None if baseline is None else BaselineView(baseline.label, baseline.top1, baseline.top3),
    )


def _elsewhere(states: Mapping[tuple[str, str], int], current: Round) -> dict[str, int]:
    return doing(states) if current.phase is Phase.SELECTION else {}


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
        taken_back=lease.taken_back,
    )


def _rows(summaries: list[RoundSummary], versions: list[VersionRecord], now_s: float) -> list[RoundRow]:
    made = {record.version: record for record in versions}
    return [
        round_row(summary, None if summary.version is None else made.get(summary.version), now_s)
        for summary in summaries
    ]


def round_row(summary: RoundSummary, made: VersionRecord | None, now_s: float) -> RoundRow:
    """A round as people see it; ``made`` is the version that it committed."""
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
    """A version as people see it."""
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
