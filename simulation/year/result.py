"""The result of a year, as one flat JSON object; ``docs/simulation.md`` describes the keys."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import linear_regression, mean
from typing import Any

from nightjar.simulation.rounds.result import peak_memory_mb
from nightjar.simulation.year.outcome import YearOutcome
from nightjar.simulation.year.plan import DAY_S
from nightjar.simulation.year.reports import missed
from nightjar.simulation.year.rules import RuleVerdict

NO_RULES = RuleVerdict({}, (), ())
QUARTER = 90
"""Days."""
NAMED = 20
"""So many of a kind are named."""


def year_result(outcome: YearOutcome) -> dict[str, Any]:
    """The result as one JSON object."""
    settings, book, rules = outcome.settings, outcome.book, outcome.rules or NO_RULES
    return {
        "seed": settings.seed,
        "model": settings.model,
        "days": len(outcome.disk),
        "devices": settings.devices,
        "faults_thrown": {name: outcome.thrown[name] for name in sorted(outcome.thrown)},
        "visits_needed": len(outcome.visits),
        "databases_mended": outcome.mended,
        "certificates_renewed_late": outcome.renewed_late,
        "faults_without_alert": len(outcome.alerts.without_alert) + len(rules.without_alert),
        "alerts_without_fault": len(outcome.alerts.without_fault) + len(rules.without_fault),
        "alerts_by_rule": {name: rules.raised[name] for name in sorted(rules.raised)},
        "reports_accepted": sum(book.accepted_by_device.values()),
        "reports_accepted_of_former_agents": outcome.former_accepted,
        "reports_lost": len(book.lost),
        "reports_counted_twice": len(book.twice),
        "rounds_committed": len(book.commits_s),
        "rounds_abandoned": book.abandoned,
        "rounds_missed": missed(book.commits_s, len(outcome.disk) * DAY_S),
        "disk_bytes": max(outcome.disk),
        "disk_growth_last_90_days_percent": growth_percent(outcome.disk),
        "written_mb_per_device_day": round(outcome.written_bytes / 1e6, 2),
        "restarts": outcome.restarts,
        "releases_current": outcome.releases_current,
        "authority_renewed": outcome.authority_renewed,
        "errors_logged": {name: outcome.errors.counts[name] for name in sorted(outcome.errors.counts)},
        "wall_seconds": round(outcome.wall_s, 1),
        "processor_seconds": round(outcome.processor_s, 1),
        "peak_memory_mb": round(peak_memory_mb(), 1),
    }


def remarks(outcome: YearOutcome) -> list[str]:
    """What was not as it should be, in words: some of each kind."""
    rules = outcome.rules or NO_RULES
    kinds = (
        [f"visit needed: {device}: {why}" for device, why in outcome.visits.items()],
        [f"fault without alert: {line}" for line in outcome.alerts.without_alert],
        [f"alert without fault: {line}" for line in outcome.alerts.without_fault],
        [f"rules: {line}" for line in [*rules.without_alert, *rules.without_fault]],
        [f"logged: {line}" for line in outcome.errors.unexpected.values()],
    )
    return [line for lines in kinds for line in lines[:NAMED]]


def growth_percent(daily: Sequence[int]) -> float | None:
    """Growth of the disk in 90 days along their line of least squares, % of their mean; None for shorter times.

    Two weeks of one fleet differ by several percent without any growth: by as many versions as devices hold.

    >>> growth_percent([100 + day for day in range(QUARTER + 1)])
    62.07
    >>> growth_percent([100, 110] * QUARTER)
    0.0
    """
    if len(daily) <= QUARTER:
        return None
    last = daily[-QUARTER - 1 :]
    return round(100 * QUARTER * linear_regression(range(len(last)), last).slope / mean(last), 2)
