"""``/metrics``: the coordinator's metrics in Prometheus' text format.

All values are read from the database at each request, so a restart loses no count and a kill counts nothing twice.
``docs/metrics.md`` lists the names. A round's phase and the devices' states show here what the round is waiting for;
the dashboard says it in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from nightjar.coordinator.enrolment.revocation import IMPAIRED
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.disk_use import DiskForecast
from nightjar.coordinator.storage.fleet import Census
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.coordinator.versions.releases import OUT, DeviceGroup
from nightjar.coordinator.versions.rollout import Stage
from nightjar.coordinator.views.rows import by_label
from nightjar.wire.messages import Verdict, Work

__all__ = ["CONTENT_TYPE", "render"]


class _Counted(NamedTuple):
    """How a counter in the database is exported; ``label`` is empty for a counter without labels."""

    stored: str
    name: str
    label: str
    meaning: str


_COUNTED = (
    _Counted("rounds_abandoned", "nightjar_rounds_abandoned", "cause", "Rounds without a new version, by cause."),
    _Counted("dropouts", "nightjar_dropouts", "cause", "Selected devices that did not report, by cause."),
    _Counted("reports_invalid", "nightjar_reports_refused", "code", "Reports answered INVALID, by code."),
    _Counted("reports_unreadable", "nightjar_reports_unreadable", "", "Accepted reports that no mean could use."),
    _Counted("reports_left_out", "nightjar_reports_left_out", "", "Accepted reports that a robust rule left out."),
    _Counted("reports_stale", "nightjar_reports_stale", "", "Late reports of a version that was too old to count."),
    _Counted("reports_unused", "nightjar_reports_unused", "", "Accepted reports that a task ended without using."),
    _Counted("devices_barred", "nightjar_devices_barred", "", "Devices barred for reports that could not be used."),
    _Counted("devices_cut_off", "nightjar_devices_cut_off", "", "Times that a device was cut off for flooding."),
    _Counted("versions_refused", "nightjar_versions_refused", "", "Versions that keyboards did not get."),
    _Counted(
        "versions_rolled_back",
        "nightjar_versions_rolled_back",
        "",
        "Versions that keyboards had, and that were taken back.",
    ),
    _Counted("bytes_up", "nightjar_received_bytes", "", "Payload bytes that devices sent over MQTT."),
    _Counted("bytes_down", "nightjar_sent_bytes", "", "Bytes of artifacts that devices fetched over HTTP."),
    _Counted("malformed_messages", "nightjar_malformed_messages", "", "Messages that could not be read."),
    _Counted("broker_dropped", "nightjar_broker_dropped_messages", "", "Messages that the broker says it threw away."),
    _Counted("broker_sessions_lost", "nightjar_broker_sessions_lost", "", "Times that the broker forgot our session."),
    _Counted("broker_refused", "nightjar_broker_refused", "", "Times that the broker refused us or our subscriptions."),
    _Counted("effects_set_aside", "nightjar_effects_set_aside", "", "Work that ended process after process."),
    _Counted("events_failed", "nightjar_events_failed", "", "Messages and other events whose handling met a defect."),
)

_OF_A_ROUND: tuple[tuple[str, str, Callable[[Round], float]], ...] = (
    ("round_number", "Number of the open round.", lambda state: state.number),
    ("round_deadline_seconds", "When its phase ends, in seconds since 1970.", lambda state: state.deadline_s),
    ("round_pool_devices", "Devices that wait to be selected.", lambda state: len(state.pool)),
    ("round_working_devices", "Selected devices at work.", lambda state: state.working),
    ("round_reports", "Reports accepted in it.", lambda state: state.reported),
    ("round_goal_reports", "Reports that end it at once.", lambda state: state.rules.goal),
    ("round_minimum_reports", "Reports without which it is abandoned.", lambda state: state.rules.minimum),
)

_STATES = (
    "offline",
    "ineligible",
    "settling",
    "checked-in",
    "preparing",
    "training",
    "finishing",
    "reporting",
    "resting",
)
_OTHER = "other"
EXPIRES_SOON_S = 10 * 86400.0
"""Devices renew a certificate of 90 days when 30 are left: with fewer than ten, something keeps them from it."""


def render(
    repository: Database,
    task: str,
    troubles: list[str],
    census: Census,
    expiring: int,
    disk: DiskForecast | None,
    *,
    leads: bool,
    distrust: str,
) -> bytes:
    """Render the metrics page.

    ``task`` is the configuration's, ``expiring`` counts certificates that end soon, and ``distrust`` says why the
    machine's clock is not trusted; it is empty if it is.

    Raises:
        UnavailableError: the database cannot be read now.
    """
    with repository.transaction() as view:
        families = [
            *_counters(view),
            *_gauges(view, task, census.states),
            *_releases(view, census),
            _gauge("healthy", "1 if the coordinator works.", not troubles),
            _gauge("leads", "1 if this coordinator leads, of several.", leads),
            _gauge(
                "revocation_impaired",
                "1 if a revoked device may get in.",
                any(trouble.startswith(IMPAIRED) for trouble in troubles),
            ),
            _gauge("clock_distrusted", "1 while the machine's clock is not trusted.", bool(distrust)),
            *_disk(disk),
            _gauge("certificates_expiring", "Devices whose certificate ends in ten days.", expiring),
        ]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    return generate_latest(registry)


class _Collected(Collector):
    """Metric families that have already been read, in one transaction."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _counters(view: DatabaseView) -> Iterator[Metric]:
    counted = view.counters()
    committed = CounterMetricFamily("nightjar_rounds_committed", "Rounds that made a new version.")
    committed.add_metric([], view.rounds_in(Phase.COMMITTED))
    yield committed
    reports = CounterMetricFamily("nightjar_reports", "Answered reports, by verdict.", labels=["verdict"])
    reports.add_metric([Verdict.ACCEPTED.value], view.accepted_reports())
    for verdict in (Verdict.DUPLICATE, Verdict.LATE):
        reports.add_metric([verdict.value], counted.get(f"reports_{verdict.value}", 0))
    reports.add_metric([Verdict.INVALID.value], sum(by_label(counted, "reports_invalid").values()))
    yield reports
    for stored, name, label, meaning in _COUNTED:
        family = CounterMetricFamily(name, meaning, labels=[label] if label else [])
        for value, amount in by_label(counted, stored).items() if label else [("", counted.get(stored, 0))]:
            family.add_metric([value] if label else [], amount)
        yield family


def _gauges(view: DatabaseView, task: str, states: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    tasks, version = view.tasks(), view.current_version(task)
    rounds = {state.task: state for state in view.open_rounds()}
    status = GaugeMetricFamily("nightjar_task_status", "1 for what has become of a task.", labels=["task", "status"])
    phase = GaugeMetricFamily("nightjar_round_phase", "1 for the phase of the open round.", labels=["task", "phase"])
    idle = GaugeMetricFamily(
        "nightjar_rounds_without_gain", "Committed rounds since one brought a better version.", labels=["task"]
    )
    patience = GaugeMetricFamily(
        "nightjar_patience_rounds", "So many of them pause a task; 0: none do.", labels=["task"]
    )
    for record in tasks:
        idle.add_metric([record.name], record.state.without_gain)
        patience.add_metric([record.name], record.settings.patience if record.settings.kind is Work.TRAIN else 0)
        for possible in TaskStatus:
            status.add_metric([record.name, possible.value], float(record.state.status is possible))
        current = rounds.get(record.name)
        for each in (Phase.SELECTION, Phase.REPORTING, Phase.COMMITTING):
            phase.add_metric([record.name, each.value], float(current is not None and current.phase is each))
    yield from (status, phase, idle, patience)
    for name, meaning, value in _OF_A_ROUND:
        family = GaugeMetricFamily(f"nightjar_{name}", meaning, labels=["task"])
        for each_task, state in rounds.items():
            family.add_metric([each_task], float(value(state)))
        yield family
    devices = GaugeMetricFamily("nightjar_devices", "Devices by the state of their agent.", labels=["state"])
    for state_name, many in _devices(states).items():
        devices.add_metric([state_name], many)
    yield devices
    if version is not None:
        yield _gauge("model_version", "The version that devices are to have.", version.version)
        if version.metrics is not None:
            meaning = "Its share of right predictions on held-out examples: recall, accuracy or another, by task type."
            share = GaugeMetricFamily("nightjar_model_share", meaning, labels=["top"])
            share.add_metric(["1"], version.metrics.top1)
            share.add_metric(["3"], version.metrics.top3)
            yield share
        meaning = "Share of the keystrokes that whole keyboards save with it, as devices measured."
        kept = GaugeMetricFamily("nightjar_keystrokes_saved_share", meaning)
        saved = view.federated(version.version).keystrokes
        if saved.devices:
            kept.add_metric([], saved.mean / 100)
        yield kept


def _releases(view: DatabaseView, census: Census) -> Iterator[Metric]:
    stages = [(each.version, each.rollout.stage) for each in view.releases()]
    stage = GaugeMetricFamily("nightjar_release_stage", "1 for the stage of a release.", labels=["release", "stage"])
    for version, now in stages:
        stage.add_metric([version, now.value], 1.0)
    yield stage
    back = CounterMetricFamily("nightjar_releases_rolled_back", "Releases of the agent that were rolled back.")
    back.add_metric([], sum(now is Stage.ROLLED_BACK for _, now in stages))  # for good, so it never falls
    yield back
    devices = GaugeMetricFamily(
        "nightjar_release_devices", "Devices that tried the release in this stage.", labels=["stage", "outcome"]
    )
    for out in sorted(OUT, key=lambda each: each.value):
        group = census.releases.get(out, DeviceGroup())
        devices.add_metric([out.value, "all"], group.devices)
        devices.add_metric([out.value, "trained"], group.trained)
        devices.add_metric([out.value, "taken-back"], group.taken_back)
        devices.add_metric([out.value, "silent"], group.silent)
    yield devices


def _disk(disk: DiskForecast | None) -> Iterator[Metric]:
    if disk is not None:
        yield _gauge("data_bytes", "What the data folder takes of its disk.", disk.used_bytes)
        yield _gauge("disk_free_bytes", "What is free on that disk.", disk.free_bytes)
        if disk.full_in_days is not None:
            yield _gauge("disk_full_in_days", "When the disk is full at its present growth.", disk.full_in_days)


def _devices(states: Mapping[tuple[str, str], int]) -> dict[str, int]:
    # Devices choose these strings; as labels, each new one would create a time series.
    many = dict.fromkeys((*_STATES, _OTHER), 0)
    for (state, _reason), devices in states.items():
        many[state if state in many else _OTHER] += devices
    return many


def _gauge(name: str, meaning: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"nightjar_{name}", meaning)
    family.add_metric([], float(value))
    return family
