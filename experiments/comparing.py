"""Methods beside each other over several seeds: what the pages of the catalogue share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

from nightjar.experiments.engine import (
    Advance,
    ClientPlan,
    Federation,
    Played,
    play,
    pooled_accuracy,
    reached,
    synthetic_federation,
)
from nightjar.experiments.frame import Request, ResultRow, row

Method = Callable[[int], Played]
"""seed -> how the training went."""


def compare(
    request: Request,
    name: str,
    methods: Mapping[str, Method],
    seeds: Sequence[int],
    *,
    pooled: Callable[[int], float] | None = None,
    cost: str = "round",
    figures: Mapping[str, float] | None = None,
    note: str = "",
) -> ResultRow:
    """A row that sets the first method beside the others, with the curves of the first seed.

    Args:
        request: what the page was asked for.
        name: of the row.
        methods: the page's method first, then what it is compared with.
        seeds: of the runs.
        pooled: seed -> accuracy of training in one place.
        cost: what the curves' x is.
        figures: further figures.
        note: a sentence beside the verdict.
    """
    played = {method: [run(seed) for seed in seeds] for method, run in methods.items()}
    ends = {method: [each.last for each in runs] for method, runs in played.items()}
    first, *others = ends
    target = 0.95 * max(map(fmean, ends.values()))
    costs = {method: [reached(each.points, target) for each in runs] for method, runs in played.items()}
    found = {other: fmean(ends[other]) for other in others}
    for method, at in costs.items():
        known = [each for each in at if each is not None]
        if len(known) == len(at):
            found[f"{cost}s to {target:.2f}, {method}"] = fmean(known)
    return row(
        request,
        name,
        ends[first],
        seeds=seeds,
        pooled=None if pooled is None else fmean(map(pooled, seeds)),
        figures={**found, **(figures or {})},
        curves={method: runs[0].points for method, runs in played.items()},
        axes=(cost, "accuracy"),
        note=f"{verdict(ends, costs, target)} {note}".strip(),
    )


def verdict(ends: Mapping[str, Sequence[float]], costs: Mapping[str, Sequence[float | None]], target: float) -> str:
    """The honest sentence: where the first method wins, that it does not, or that the seeds differ as much.

    >>> verdict({"A": [0.5, 0.6], "B": [0.6, 0.7]}, {"A": [9.0, None], "B": [4.0, 5.0]}, 0.6)
    'A did not win.'
    >>> verdict({"A": [0.5, 0.6], "B": [0.6, 0.5]}, {"A": [4.0, 5.0], "B": [9.0, None]}, 0.5)
    'A reaches 0.50 first.'
    >>> verdict({"A": [0.5, 0.6], "B": [0.6, 0.5]}, {"A": [None, None], "B": [9.0, None]}, 0.5)
    'A: no difference beyond the spread of 2 seeds.'

    Args:
        ends: accuracies of each method, one a seed; the first is judged.
        costs: at which each reached the target, one a seed; None where it did not.
        target: accuracy.
    """
    first, *others = ends
    spent = {method: [float("inf") if each is None else each for each in at] for method, at in costs.items()}
    wins = []
    if all(beyond_spread(ends[first], ends[other]) for other in others):
        wins.append("ends highest")
    if all(beyond_spread(spent[other], spent[first]) for other in others):
        wins.append(f"reaches {target:.2f} first")
    if wins:
        return f"{first} {' and '.join(wins)}."
    if any(beyond_spread(ends[other], ends[first]) for other in others):
        return f"{first} did not win."
    seeds = len(ends[first])
    return (
        f"{first}: no difference beyond the spread of {seeds} seeds."
        if seeds > 1
        else f"{first}: one seed decides nothing."
    )


def beyond_spread(larger: Sequence[float], smaller: Sequence[float]) -> bool:
    """Whether the mean difference, seed by seed, exceeds twice its standard error.

    One seed has no spread and decides nothing. Where a figure is infinite, all differences must be above 0.

    >>> beyond_spread([3.0, 4.0, 5.0], [1.0, 2.0, 2.5]), beyond_spread([1.0, 4.0], [2.0, 1.0]), beyond_spread([2], [1])
    (True, False, False)

    Args:
        larger: figures, one a seed.
        smaller: figures of the same seeds.
    """
    if len(larger) < LEAST_SEEDS or float("inf") in smaller:
        return False
    differences = [a - b for a, b in zip(larger, smaller, strict=True)]
    if float("inf") in differences:
        return all(each > 0 for each in differences)
    return fmean(differences) > 2 * stdev(differences) / math.sqrt(len(differences))


LEAST_SEEDS = 2
ROUNDS = (4, 200, 400)
"""Of the smoke, short and long forms of a page of the catalogue."""
Study = Callable[[Federation, int, int], Played]
"""(federation, seed, rounds) -> how the training went."""


def playing(
    make: Callable[[Federation], Advance], cohort: int | None = 10, *, every: int = 4, cost: float = math.inf
) -> Study:
    """A study that plays an algorithm from its start.

    Args:
        make: federation -> the algorithm.
        cohort: clients a round; None takes all.
        every: rounds between measurements.
        cost: at which to stop.
    """

    def played(federation: Federation, seed: int, rounds: int) -> Played:
        among = cohort or len(federation.clients)
        return play(federation, make(federation), seed, rounds, among, every=every, cost=cost)

    return played


def study(
    request: Request,
    name: str,
    methods: Mapping[str, Study],
    plan: ClientPlan,
    *,
    rounds: tuple[int, int, int] = ROUNDS,
    federation: Callable[[int], Federation] = synthetic_federation,
    cost: str = "round",
    central: bool = True,
    note: str = "",
) -> ResultRow:
    """:func:`compare` on Synthetic(1, 1) with 1, 3 or 5 seeds, beside 1, 30 or 60 passes in one place."""
    seeds = request.pick([1], [1, 2, 3], [1, 2, 3, 4, 5])
    count, passes = request.pick(*rounds), request.pick(1, 30, 60)

    def at_seed(method: Study) -> Method:
        return lambda seed: method(federation(seed), seed, count)

    return compare(
        request,
        name,
        {method: at_seed(run) for method, run in methods.items()},
        seeds,
        pooled=(lambda seed: pooled_accuracy(federation(seed), plan, seed, passes)) if central else None,
        cost=cost,
        note=note,
    )
