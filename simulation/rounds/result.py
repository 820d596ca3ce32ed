"""The result of a simulation, as one flat JSON object and as a table."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from typing import Any

import numpy as np
from rich.table import Table

from nightjar.coordinator.rounds.round import Phase, Round, dropouts
from nightjar.simulation.rounds.hunt import Bag
from nightjar.simulation.rounds.world import SAMPLE_EVERY_S, SimulationResult

QUANTILES = (0.1, 0.5, 0.9, 1.0)
MEASURED = ("wall_seconds", "peak_memory_mb")
"""Keys whose values depend on the machine; all others depend only on the settings."""


def result_of(outcome: SimulationResult) -> dict[str, Any]:
    """The result as one JSON object; ``docs/simulation.md`` describes the keys."""
    settings, observer = outcome.settings, outcome.observer
    rounds = observer.rounds
    committed = [state for state in rounds if state.phase is Phase.COMMITTED]
    abandoned = [state for state in rounds if state.phase is Phase.ABANDONED]
    selected, dropped = seats(rounds)
    return {
        "devices": settings.devices,
        "rounds": settings.rounds,
        "seed": settings.seed,
        "faults": sorted(map(str, settings.faults)),
        "severity": settings.severity,
        "availability": "generated" if settings.availability is None else "traces",
        "codec": settings.codec,
        "pace_steering": settings.steered,
        "tasks": settings.tasks,
        "privacy": settings.privacy.value,
        "mode": settings.mode.value,
        "canaries": settings.canaries,
        "rounds_committed": len(committed),
        "rounds_abandoned": len(abandoned),
        "versions_rejected": outcome.counters.get("versions_refused", 0)
        + outcome.counters.get("versions_rolled_back", 0),
        "rounds_committed_per_hour": round(3600 * len(committed) / outcome.virtual_s, 2),
        "rounds_committed_by_task": _counted(Counter(state.task for state in committed)),
        "abandoned_reasons": _counted(Counter(state.reason for state in abandoned)),
        "dropout_rate": round(dropped / selected, 4) if selected else 0.0,
        "dropout_causes": _counted(sum((_causes(state) for state in rounds), Counter())),
        "reports_accepted": observer.verdicts["accepted"],
        "reports_duplicate": observer.verdicts["duplicate"],
        "reports_late": observer.verdicts["late"],
        "reports_invalid": observer.verdicts["invalid"],
        "phone_seconds_by_verdict": {name: round(seconds) for name, seconds in sorted(observer.spent_s.items())},
        "reports_lost": len(observer.lost),
        "reports_counted_twice": observer.counted_twice,
        "devices_in_two_rounds_at_once": len(observer.double_booked),
        "commits_that_are_not_the_mean": len(observer.wrong_means),
        "rejected_versions_used": len(observer.rejected_used),
        "round_seconds": quantiles([observer.seconds(state.number) for state in committed]),
        "staleness": {str(versions): observer.stale[versions] for versions in sorted(observer.stale)},
        "messages": outcome.messages,
        "messages_per_s": quantiles([sample.messages / SAMPLE_EVERY_S for sample in outcome.samples[1:]]),
        "peak_messages_per_s": outcome.peak_messages_per_s,
        "messages_lost": _counted(outcome.lost_messages),
        "faults_thrown": _counted(outcome.thrown),
        "errors_logged": _counted(outcome.errors.counts),
        "virtual_hours": round(outcome.virtual_s / 3600, 3),
        "wall_seconds": round(outcome.wall_s, 2),
        "peak_memory_mb": round(peak_memory_mb(), 1),
    }


def bag_of(bag: Bag, seeds: int) -> dict[str, Any]:
    """The result of a hunt as one JSON object."""
    return {
        "seeds": seeds,
        "seeds_with_defects": sorted(bag.wrong),
        "rounds_committed": bag.phases[Phase.COMMITTED],
        "rounds_abandoned": bag.phases[Phase.ABANDONED],
        "reports": _counted(bag.verdicts),
        "faults_thrown": _counted(bag.thrown),
    }


def seats(rounds: list[Round]) -> tuple[int, int]:
    """Number of selections in these rounds, and number of dropouts.

    A device that was still working when the goal was reached is no dropout.
    """
    selected = dropped = 0
    for state in rounds:
        earlier = sum(len(seat.earlier) for seat in state.seats.values())
        carried = sum(seat.given is not None and seat.given.round != state.number for seat in state.seats.values())
        selected += len(state.seats) - carried + earlier
        dropped += earlier + sum(seat.cause is not None for seat in state.seats.values())
    return selected, dropped


def quantiles(values: list[float]) -> dict[str, float]:
    """The quantiles ``QUANTILES`` by name; empty without values.

    >>> quantiles([1.0, 2.0, 3.0])["p50"]
    2.0
    """
    if not values:
        return {}
    found = np.quantile(values, QUANTILES).tolist()
    names = ("max" if share == 1.0 else f"p{100 * share:.0f}" for share in QUANTILES)
    return {name: round(value, 1) for name, value in zip(names, found, strict=True)}


def peak_memory_mb() -> float:
    """Peak memory of this process, MB."""
    kilo = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilo / 1e6


def table_of(result: dict[str, Any], title: str = "Rounds") -> Table:
    """The result as a table with two columns."""
    table = Table(title=title, show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("how much", overflow="fold")
    for key, value in result.items():
        table.add_row(key.replace("_", " "), _in_words(value))
    return table


def _causes(state: Round) -> Counter[str]:
    return Counter({cause.value: count for cause, count in dropouts(state).items()})


def _counted(counter: Counter[str]) -> dict[str, int]:
    return {name: counter[name] for name in sorted(counter) if counter[name]}


def _in_words(value: object) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}={amount}" for name, amount in value.items()) or "none"
        case list():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value)
