"""What the pages on selection share: rounds that last as long as the slowest chosen client."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from experiments.engine import Chosen, Federation, Plan, Played, averaging, paces, play
from wire.parameters import Vector

SENDING_S = 2.0
Learned = Callable[[Chosen, Vector], None]
"""Told of the clients of a round and the weights that they began with."""


def round_times(federation: Federation, plan: Plan, seed: int) -> list[float]:
    """Seconds of a round of each client."""
    clients = federation.clients
    return [
        pace * plan.count(len(each)) + SENDING_S for pace, each in zip(paces(seed, len(clients)), clients, strict=True)
    ]


def play_selected(
    federation: Federation,
    plan: Plan,
    seed: int,
    rounds: int,
    cohort: int,
    horizon_s: float,
    select: Callable[[int, np.random.Generator], Chosen] | None = None,
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
