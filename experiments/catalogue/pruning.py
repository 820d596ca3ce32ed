"""Pruning in two stages: one client finds a small network, and the federation goes on choosing its weights.

::

    stage 1   a client trains alone; now and then the kept weights M are chosen anew
    stage 2   rounds of FedAvg on M; every R rounds M is chosen anew from the clients' mean gradient g
    choose    the largest weights stay; of the others, also those that are pruned now, those with the largest g_j^2
              are added while  sum over M of g_j^2 / seconds of a round with M  grows

``g_j^2`` is how far one step of SGD lowers the loss through weight j. A smaller M takes less of sending and of
computing; a pruned weight that matters comes back.

Source: Jiang et al. 2019, "Model Pruning Enables Efficient Federated Learning on Edge Devices", algorithms 1 and 2 (the
book's 3.3.3).
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from nightjar.experiments.catalogue.compressing import COMPUTE_S, DENSE_BYTES, Kept, largest, seconds
from nightjar.experiments.comparing import playing, study
from nightjar.experiments.engine import (
    Advance,
    Chosen,
    ClientPlan,
    Federation,
    averaging,
    descend,
    priced,
    sizes,
    synthetic_federation,
    weighted_mean,
)
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.experiments.networks import dense
from nightjar.wire.parameters import Vector

HIDDEN = 64
FIXED_S = 1.0
"""Seconds of a round whatever is kept."""
SHARE = 0.05
"""Of the weights, the largest, which stay."""
ALONE = 20
"""Plans of the client in the first stage."""
AGAIN = 50
"""Rounds between two choices, R."""


def round_seconds(kept: int, size: int) -> float:
    """Of a round that computes and sends, up and down, so many of the weights.

    >>> round_seconds(1000, 1000), round_seconds(0, 1000)
    (17.0, 0.0)
    """
    return seconds(2 * DENSE_BYTES * kept) - COMPUTE_S + COMPUTE_S * kept / size


def choose(weights: Vector, gradient: Vector, stay: int, fixed_s: float) -> Kept:
    """The weights to keep, (n,) bool.

    >>> choose(np.array([9.0, 1.0, 1.0, 0.0]), np.array([0.0, 3.0, 0.1, 2.0]), 1, 0.1).tolist()
    [True, True, False, True]

    Args:
        weights: (n,).
        gradient: (n,), of the mean loss, also of pruned weights.
        stay: how many of the largest stay.
        fixed_s: seconds of a round whatever is kept.
    """
    kept = largest(weights, stay)
    squares = gradient.astype(np.float64) ** 2
    order = np.flatnonzero(~kept)
    order = order[np.argsort(-squares[order], kind="stable")]
    gains = squares[kept].sum() + np.cumsum(squares[order])
    times = [fixed_s + round_seconds(stay + more, weights.size) for more in range(1, len(order) + 1)]
    kept[order[: int(np.argmax(gains / times)) + 1]] = True
    return kept


def pruned(federation: Federation, plan: ClientPlan, *, again: bool) -> Advance:
    """Rounds of all clients on the kept weights; the cost is seconds, of which the first round has stage 1's."""
    network, size = federation.network, federation.network.size
    stay = round(SHARE * size)
    kept = np.ones(size, np.bool_)
    largest_client = max(federation.clients, key=len)

    def masked(gradient: Vector, _: Vector) -> Vector:
        return np.where(kept, gradient, np.float32(0))

    def alone(weights: Vector, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal kept
        spent_s = 0.0
        for _ in range(ALONE):
            weights = descend(network, weights, largest_client, plan, rng, masked)
            spent_s += COMPUTE_S * kept.sum() / size
            kept = choose(weights, network.gradient(weights, largest_client.x, largest_client.y)[1], stay, FIXED_S)
            weights = np.where(kept, weights, np.float32(0))
        return weights, spent_s

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal kept
        spent_s = FIXED_S
        if number == 0:
            weights, first_s = alone(weights, rng)
            spent_s += first_s
        trained = [descend(network, weights, federation.clients[each], plan, rng, masked) for each in chosen]
        weights = weighted_mean(trained, sizes(federation, chosen)).astype(np.float32)
        spent_s += round_seconds(int(kept.sum()), size)
        if again and (number + 1) % AGAIN == 0:
            gradients = [network.gradient(weights, each.x, each.y)[1] for each in federation.clients]
            everybody = range(len(federation.clients))
            gradient = weighted_mean(gradients, sizes(federation, everybody)).astype(np.float32)
            kept = choose(weights, gradient, stay, FIXED_S)
            weights = np.where(kept, weights, np.float32(0))
            spent_s += round_seconds(size, size) / 2  # gradients of all weights go up once
        return weights, spent_s

    return advance


def world(seed: int) -> Federation:
    """Synthetic(1, 1) with a hidden layer, so that there is something to prune."""
    given = synthetic_federation(seed)
    return replace(given, network=dense(given.clients[0].x.shape[1], HIDDEN, 10))


def run(request: Request) -> list[ResultRow]:
    """Both stages beside the first alone and beside no pruning, in equally many simulated seconds."""
    plan, size = ClientPlan(rate=0.02, batch=20, steps=5), world(1).network.size
    whole_s = FIXED_S + round_seconds(size, size)
    in_time = functools.partial(playing, cohort=None, every=5, cost=request.pick(300.0, 10_000.0, 30_000.0))
    methods = {
        "two stages": in_time(lambda federation: pruned(federation, plan, again=True)),
        "the first alone": in_time(lambda federation: pruned(federation, plan, again=False)),
        "unpruned": in_time(lambda federation: priced(averaging(federation, plan), lambda _: whole_s)),
    }
    rounds = (10, 1000, 3000)
    return [study(request, "pruning in two stages", methods, plan, rounds=rounds, federation=world, cost="second")]


main = page_command("catalogue.pruning", run)
if __name__ == "__main__":
    main()
