"""TIFL: clients in tiers by speed; a round asks one tier, so that nobody waits for a much slower client.

::

    tiers by round time;  every I rounds: a tier's chance is its rank by accuracy, worst first, among tiers with credits
    p_t = (T - rank_t) / sum of these;  a tier's credits fall by one each time it is chosen

The adaptive policy: tiers whose accuracy lags are asked more often, as long as they have credits. A tier's accuracy is
the mean over its clients' test examples.

Source: Chai et al. 2020, "TiFL: A Tier-based Federated Learning System", algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nightjar.experiments.catalogue.selecting import Learned, beside_uniform, round_times
from nightjar.experiments.engine import Chosen, ClientPlan, Federation
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

TIERS = 5
INTERVAL = 10
"""I, rounds."""


def tiers(times: Sequence[float], count: int) -> list[list[int]]:
    """Clients in tiers of equal size, fastest first.

    >>> tiers([3.0, 1.0, 2.0, 4.0], 2)
    [[1, 2], [0, 3]]
    """
    return [part.tolist() for part in np.array_split(np.argsort(times, kind="stable"), count)]


def chances(accuracies: Sequence[float], credits: Sequence[int]) -> list[float]:
    """Of the tiers: the worst first.

    >>> chances([0.9, 0.5, 0.7], [1, 1, 1])
    [0.16666666666666666, 0.5, 0.3333333333333333]
    >>> chances([0.9, 0.5, 0.7], [1, 0, 1])
    [0.3333333333333333, 0.0, 0.6666666666666666]
    """
    open_tiers = sorted((at for at, left in enumerate(credits) if left > 0), key=lambda at: accuracies[at])
    total = len(open_tiers) * (len(open_tiers) + 1) / 2
    ranks = {at: rank for rank, at in enumerate(open_tiers)}
    return [(len(open_tiers) - ranks[at]) / total if at in ranks else 0.0 for at in range(len(accuracies))]


def tifl(
    federation: Federation, plan: ClientPlan, seed: int, cohort: int, rounds: int
) -> tuple[Callable[[int, np.random.Generator], Chosen], Learned]:
    """The selection, and the accuracy that it asks of the tiers."""
    found = tiers(round_times(federation, plan, seed), TIERS)
    credit = [-(-2 * rounds // TIERS)] * TIERS
    shares = [1 / TIERS] * TIERS
    number = 0

    def select(at: int, rng: np.random.Generator) -> Chosen:
        nonlocal number
        number = at
        tier = int(rng.choice(TIERS, p=shares))
        credit[tier] -= 1
        members = found[tier]
        return [int(each) for each in rng.choice(members, min(cohort, len(members)), replace=False)]

    def learned(_: Chosen, weights: Vector) -> None:
        nonlocal shares
        if number % INTERVAL == 0:
            each = [federation.network.correct(weights, test) for test in federation.tests]
            shares = chances([float(np.mean([each[member] for member in tier])) for tier in found], credit)
        elif any(share and not left for share, left in zip(shares, credit, strict=True)):
            shares = chances([1.0] * TIERS, credit)

    return select, learned


def run(request: Request) -> list[ResultRow]:
    """TIFL beside a uniform draw, in equally many simulated seconds."""
    return [beside_uniform(request, "TIFL", tifl)]


main = page_command("catalogue.tifl", run)
if __name__ == "__main__":
    main()
