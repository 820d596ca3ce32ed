"""The overview page: learning progress, health, network cost, and the versions that devices have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated

import msgspec
from flask import Blueprint, abort, render_template
from msgspec import Meta

from nightjar.coordinator.access import Role
from nightjar.coordinator.learning.device_metrics import Mean, Tally, figures
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.rounds.waiting import doing
from nightjar.coordinator.storage.baselines import Compared, compared
from nightjar.coordinator.storage.fleet import ELIGIBLE, GROUPS, Sample
from nightjar.coordinator.storage.versions import VersionMeasurement
from nightjar.coordinator.tasks.schedule import DAY_S, HOUR_S
from nightjar.coordinator.versions.rollout import Stage
from nightjar.coordinator.views import words
from nightjar.coordinator.views.rows import by_label, recall_on_devices, saved_on_devices, why_not_active
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.pages import charts
from nightjar.coordinator.web.ports import Site

SAMPLE_EVERY_S = 900
DRAWN_EVERY_S = 1800
VERSIONS_DRAWN = 240
"""Newest versions in the plot: older ones do not show whether the model is learning now."""
VERSIONS_LOOKED_AT = 40
"""Newest versions that are searched for one that was rolled back or refused."""
TAKEN_BACK = {Stage.REFUSED, Stage.ROLLED_BACK}
ROUNDS_SHOWN = 6


class OverviewAsked(msgspec.Struct, frozen=True):
    """Which task; empty means the configuration's task."""

    task: Annotated[str, Meta(max_length=64)] = ""


class Late(msgspec.Struct, frozen=True):
    """A selected device that is slow or disconnected."""

    device: str
    why: str


class Cost(msgspec.Struct, frozen=True):
    """Network traffic of the last day.

    ``since_s`` is when that period begins: 24 hours ago, or at the first sample if that is later.
    """

    up_day: int
    down_day: int
    reports_day: int
    since_s: float


def add_overview(blueprint: Blueprint, site: Site) -> None:
    """Add the overview page."""
    ports = site.ports

    @blueprint.get("/")
    @needs(Role.VIEWER)
    def overview() -> str:
        now_s = ports.clock.now_s()
        with ports.repository.transaction() as view:
            first = ports.config.task.name
            asked = request_parsing.query(OverviewAsked).task or first
            tasks, open_rounds = view.tasks(), view.open_rounds()
            task = next((each for each in tasks if each.name == asked), None)
            if task is None and asked != first:
                request_parsing.missing(f"task {asked}")
            current = view.current_version(asked)
            if current is None or task is None:
                abort(503, "the coordinator is about to import its model and to begin its task")
            canary = view.canary_version(asked)
            open_round = next((state for state in open_rounds if state.task == asked), None)
            newest = view.versions(VERSIONS_LOOKED_AT, task=asked)
            measured = view.measured(VERSIONS_DRAWN, asked)
            training = view.training_version(asked)
            tallies = view.newest_on_devices(VERSIONS_DRAWN, asked)
            recent = view.recent_rounds(ROUNDS_SHOWN)[::-1]
            made = view.versions_made_in(recent)
            counted, accepted = view.counters(), view.accepted_reports()
            committed, lost = view.rounds_in(Phase.COMMITTED), view.rounds_in(Phase.ABANDONED)
            report_bytes, usual_s = view.report_bytes_median(), view.rhythm().usual_round_s
            kept = view.baselines()
            samples = view.samples(now_s - DAY_S, SAMPLE_EVERY_S)
        census = site.census.now()
        baselines = compared(ports.config.task, kept) if asked == first else []
        return render_template(
            "overview.html",
            task=task.state,
            settings=task.settings,
            why=why_not_active(task),
            tasks=[each.name for each in tasks],
            others=[state for state in open_rounds if state.task != asked],
            troubles=ports.troubles(),
            disk=ports.disk(),
            warnings=ports.warnings(),
            round=open_round,
            late=[] if open_round is None else late(open_round, usual_s, now_s),
            elsewhere=doing(census.states),
            census=census,
            current=current,
            canary=canary,
            taken_back=next((each for each in reversed(newest) if each.rollout.stage in TAKEN_BACK), None),
            measured=measured,
            recall=recall(measured, baselines, shares := site.figures(current.manifest)),
            figures=shares,
            baselines=baselines,
            recent=recent,
            made=made,
            committed=committed,
            abandoned_rounds=lost,
            accepted=accepted,
            report_bytes=report_bytes,
            dense_bytes=4 * site.manifest(current.manifest).layout.size,
            counted=counted,
            dropouts=most_first(by_label(counted, "dropouts")),
            invalid=most_first(by_label(counted, "reports_invalid")),
            abandoned=most_first(by_label(counted, "rounds_abandoned")),
            day=day(samples),
            drawn_groups=drawn_groups(samples),
            day_table=[samples[at] for at in charts.thinned(len(samples), 13)],
            groups=list(GROUPS),
            eligible_groups=ELIGIBLE,
            traffic=traffic(by_hour(samples)),
            hours=by_hour(samples),
            cost=cost(samples, counted, accepted),
            broker=ports.broker,
            evaluated=ports.config.task.evaluation_text is not None,
            training=training,
            keystrokes=(saved := saved_on_devices(tallies)),
            keystrokes_plot=keystrokes_plot(saved, current.version),
            gains=gains(tallies),
            on_devices=recall_on_devices(tallies),
            own_text=ports.config.task.evaluation_text is not None and not ports.config.task.measured_in_public,
            best=max(measured, key=lambda each: each.metrics.top1, default=None),
            started_s=site.started_s,
        )


def recall(measured: list[VersionMeasurement], baselines: list[Compared], names: tuple[str, str]) -> str:
    """The plot of the two shares, called ``names``, by version; empty with fewer than two measured versions."""
    if len(measured) < 2:
        return ""
    drawn = [measured[at] for at in charts.thinned(len(measured))]
    figures = [version.metrics for version in drawn]
    series: list[charts.Series] = [
        (names[0], tuple(round(100 * each.top1, 2) for each in figures)),
        (names[1], tuple(round(100 * each.top3, 2) for each in figures)),
    ]
    series += [(f"{each.label} top-1", (round(100 * each.top1, 2),) * len(drawn)) for each in baselines]
    labels = tuple(str(version.version) for version in drawn)
    return charts.lines(
        f"{names[0]} by version, in percent; the table below has the figures", labels, tuple(series), "%"
    )


def keystrokes_plot(saved: Mapping[int, Mean], announced: int) -> str:
    """The plot of the keystrokes that keyboards save, by version; empty with fewer than two measured versions."""
    if len(saved) < 2:
        return ""
    versions = sorted(saved)
    drawn = [versions[at] for at in charts.thinned(len(versions))]
    if announced in saved and announced not in drawn:
        drawn = sorted([*drawn, announced])
    values = tuple(
        (round(saved[each].mean, 2), None if (error := saved[each].error) is None else round(error, 2))
        for each in drawn
    )
    name = "Keystrokes saved on devices by version, in percent; the table below has the figures"
    marked = drawn.index(announced) if announced in drawn else -1
    return charts.estimates(name, tuple(map(str, drawn)), values, marked, "%")


def gains(tallies: Mapping[int, Tally]) -> dict[int, tuple[int, Mean]]:
    """The version that most devices compared a version with, and the gain over it in points, by version.

    Keyboards that have the version itself compare nothing.
    """
    found = {}
    for number, tally in tallies.items():
        others = {version: mean for version, mean in figures(tally).gain_over.items() if version != number}
        if others:
            found[number] = max(others.items(), key=lambda each: (each[1].devices, each[0]))
    return found


def day(samples: list[Sample]) -> str:
    """The plot of what the devices did over the day; empty with fewer than two samples.

    Bars, one for each half-hour: nothing is drawn where nothing was counted.
    """
    if len(samples) < 2:
        return ""
    counted = {int(sample.at_s // DRAWN_EVERY_S): sample for sample in samples}  # the last of each half-hour
    slots = range(min(counted), max(counted) + 1)
    series = tuple(
        (name, tuple(counted[slot].groups.get(name, 0) if slot in counted else None for slot in slots))
        for name in GROUPS
    )
    labels = tuple(words.clock(slot * DRAWN_EVERY_S) for slot in slots)
    return charts.bars("Phones over the day by what they do; the table below has the figures", labels, series)


def drawn_groups(samples: list[Sample]) -> list[str]:
    """The groups that any sample has a device in."""
    return [name for name in GROUPS if any(sample.groups.get(name) for sample in samples)]


def by_hour(samples: list[Sample]) -> list[tuple[float, int, int, int]]:
    """(Start of the hour, bytes up, bytes down, reports) for each hour that the samples cover."""
    hours: dict[int, list[Sample]] = {}
    for before, after in itertools.pairwise(samples):
        hours.setdefault(int(before.at_s // HOUR_S), [before]).append(after)
    return [
        (
            number * HOUR_S,
            within[-1].bytes_up - within[0].bytes_up,
            within[-1].bytes_down - within[0].bytes_down,
            within[-1].reports - within[0].reports,
        )
        for number, within in sorted(hours.items())
    ]


def traffic(hours: list[tuple[float, int, int, int]]) -> str:
    """The plot of bytes by hour; empty if there are no hours."""
    if not hours:
        return ""
    labels = tuple(words.clock(begun_s) for begun_s, *_ in hours)
    up, down = tuple(up for _, up, _, _ in hours), tuple(down for _, _, down, _ in hours)
    name = "Bytes by hour, from devices and to them; the table below has the figures"
    return charts.bars(name, labels, (("from devices", up), ("to devices", down)), "B")


def cost(samples: list[Sample], counted: Mapping[str, int], accepted: int) -> Cost | None:
    """Network traffic of the last day; None before the first sample."""
    if not samples:
        return None
    first = samples[0]
    return Cost(
        up_day=counted.get("bytes_up", 0) - first.bytes_up,
        down_day=counted.get("bytes_down", 0) - first.bytes_down,
        reports_day=accepted - first.reports,
        since_s=first.at_s,
    )


def late(state: Round, usual_s: float, now_s: float) -> list[Late]:
    """Devices that are late in a round that waits for reports; ``usual_s`` is 0 if no round has ended yet."""
    if state.phase is not Phase.REPORTING or state.started_at_s is None:
        return []
    overdue = 0 < usual_s < now_s - state.started_at_s
    working = [(device, seat) for device, seat in sorted(state.seats.items()) if seat.state is SeatState.WORKING]
    gone = [
        Late(device, f"not connected for {words.duration(max(now_s - seat.lost_since_s, 0.0))}")
        for device, seat in working
        if seat.lost_since_s is not None
    ]
    slow = [Late(device, "longer than rounds usually take") for device, seat in working if seat.lost_since_s is None]
    return gone + (slow if overdue else [])


def most_first(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Counts, largest first.

    >>> most_first({"a": 1, "b": 3})
    [('b', 3), ('a', 1)]
    """
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
