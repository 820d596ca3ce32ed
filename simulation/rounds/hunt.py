"""Searches for defects: simulates with many seeds and collects the violations.

Violations are: an accepted report lost or counted twice, weights that are not the mean, a report that is never
answered, an error in a log that no fault explains, rounds that do not end, and any exception. The number of committed
rounds is not checked, because it depends on the faults.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nightjar.coordinator.rounds.round import Phase
from nightjar.simulation.rounds.world import Settings, SimulationResult, simulate


@dataclass(frozen=True, slots=True)
class Bag:
    """The result of a hunt."""

    phases: Counter[Phase] = field(default_factory=Counter)  # ended rounds by phase
    verdicts: Counter[str] = field(default_factory=Counter)  # receipts by verdict
    thrown: Counter[str] = field(default_factory=Counter)  # faults by name and place
    wrong: dict[int, list[str]] = field(default_factory=dict)  # seed -> complaints; only seeds with any


def complaints(outcome: SimulationResult) -> list[str]:
    """The violations in a simulation, as sentences."""
    observer, settings = outcome.observer, outcome.settings
    found: list[str] = []
    for reports, what in (
        (observer.lost, "accepted reports are lost"),
        (observer.contradicted, "reports were accepted and also answered as late"),
        (observer.double_booked, "assignments made a device work in two rounds at once, or for two variants"),
    ):
        if reports:
            found.append(f"{len(reports)} {what}; the first (round, phone, attempt): {reports[0]}")
    if observer.counted_twice:
        found.append(f"{observer.counted_twice} reports were counted twice")
    if observer.wrong_means:
        found.append(f"rounds whose weights are not the mean of the phones' reports: {observer.wrong_means}")
    if observer.rejected_used:
        found.append(f"rejected versions that left something behind: {sorted(observer.rejected_used)}")
    if outcome.unanswered:
        found.append(f"phones whose reports of ended rounds were never answered: {', '.join(outcome.unanswered[:5])}")
    if len(observer.rounds) < settings.rounds:
        found.append(
            f"{len(observer.rounds)} of {settings.rounds} rounds ended in {outcome.virtual_s / 3600:.0f} hours"
        )
    for event, line in outcome.errors.unexpected.items():
        found.append(f"logged {outcome.errors.counts[event]} times, not explained by any fault: {line}")
    return found


def hunt(settings: Settings, seeds: Iterable[int]) -> Bag:
    """Simulate with each seed, let it settle, and collect the violations."""
    bag = Bag()
    for seed in seeds:
        try:
            outcome = simulate(replace(settings, seed=seed), settle=True)
        except Exception:  # a defect must not end the hunt; its traceback is kept
            bag.wrong[seed] = [traceback.format_exc()]
            continue
        bag.phases.update(state.phase for state in outcome.observer.rounds)
        bag.verdicts.update(outcome.observer.verdicts)
        bag.thrown.update(outcome.thrown)
        found = complaints(outcome)
        if found:
            bag.wrong[seed] = found
    return bag
