"""What the pages on selection share: rounds that last as long as the slowest chosen client."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nightjar.experiments.comparing import study
from nightjar.experiments.engine import Chosen, ClientPlan, Federation, Played, averaging, paces, play
from nightjar.experiments.frame import Request, ResultRow
from nightjar.wire.parameters import Vector

SENDING_S = 2.0
Select = Callable[[int, np.random.Generator], Chosen]
"""(round, rng) -> clients."""
Learned = Callable[[Chosen, Vector], None]
"""Told of the clients of a round and the weights that they began with."""
Selection = Callable[[Federation, ClientPlan, int, int, int], tuple[Select, Learned]]
"""(federation, plan, seed, cohort, rounds) -> how clients are selected, and what learns from them."""


def round_times(federation: Federation, plan: ClientPlan, seed: int) -> list[float]:
    """Seconds of a round of each client."""
    clients = federation.clients
    return [
        pace * plan.count(len(each)) + SENDING_S for pace, each in zip(paces(seed, len(clients)), clients, strict=True)
    ]


def play_selected(
    federation: Federation,
    plan: ClientPlan,
    seed: int,
    rounds: int,
    cohort: int,
    horizon_s: float,
    select: Select | None = None,
    learned: Learned | None = None,
) -> Played:
    """FedAvg with a selection, until so many simulated seconds are spent.

    Args:
        federation: who trains what.
        plan: what a client does.
        seed: of everything.
        rounds: at most so many.
        cohort: clients of a uniform draw.
        horizon_s: seconds.
        select: (round, rng) -> clients; None draws uniformly.
        learned: is told of each round.
    """
    inner, times = averaging(federation, plan), round_times(federation, plan, seed)

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        if learned is not None:
            learned(chosen, weights)
        return inner(number, weights, chosen, rng)[0], slowest(times, chosen)

    return play(federation, advance, seed, rounds, cohort, every=2, select=select, cost=horizon_s)


def slowest(times: Sequence[float], chosen: Chosen) -> float:
    """Seconds of the round."""
    return max(times[each] for each in chosen)


def beside_uniform(request: Request, name: str, selection: Selection) -> ResultRow:
    """A selection beside a uniform draw of six clients, in equally many simulated seconds."""
    plan, cohort = ClientPlan(rate=0.02, batch=20), 6
    horizon_s = request.pick(50.0, 2000.0, 6000.0)

    def ours(federation: Federation, seed: int, rounds: int) -> Played:
        select, learned = selection(federation, plan, seed, cohort, rounds)
        return play_selected(federation, plan, seed, rounds, cohort, horizon_s, select, learned)

    def uniform(federation: Federation, seed: int, rounds: int) -> Played:
        return play_selected(federation, plan, seed, rounds, cohort, horizon_s)

    return study(request, name, {name: ours, "uniform": uniform}, plan, rounds=(10, 600, 1800), cost="second")
