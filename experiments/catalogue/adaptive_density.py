"""Sign-based adaptive density: k follows the sign of how the time for a fall of the loss changes with k.

::

    tau(k) = seconds of a round at k / fall of the loss in it
    s = sign(tau(k) - tau(k'))           k' = k - step / 2, tried on the same sums
    k <- clip(k - step s, k_min, k_max)  step = (k_max - k_min) / sqrt(2 r)

Whether k' would do is seen without another upload: the server has the coordinates that k' would keep. A loss that did
not fall says nothing, and k stays.

Source: Han, Wang and Leung 2020, "Adaptive Gradient Sparsification for Efficient Federated Learning: An Online Learning
Approach", algorithm 2 and equation 10.
"""

from __future__ import annotations

import math

import numpy as np

from nightjar.experiments.catalogue.compressing import VALUE_BYTES, largest, seconds
from nightjar.experiments.comparing import Study, study
from nightjar.experiments.engine import Advance, Chosen, ClientPlan, Federation, Played, descend, play
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector


def next_count(
    count: float, step: float, cost: float | None, cost_of_fewer: float | None, least: int, most: int
) -> float:
    """The next k.

    >>> next_count(100.0, 20.0, cost=5.0, cost_of_fewer=4.0, least=10, most=600)
    80.0
    >>> next_count(100.0, 20.0, cost=None, cost_of_fewer=4.0, least=10, most=600)
    100.0

    Args:
        count: k.
        step: how far it may move.
        cost: tau(k), seconds a nat; None where the loss did not fall.
        cost_of_fewer: tau(k').
        least: k_min.
        most: k_max.
    """
    if cost is None or cost_of_fewer is None:
        return count
    return float(np.clip(count - step * np.sign(cost - cost_of_fewer), least, most))


def sparse(federation: Federation, plan: ClientPlan, fixed: int | None) -> Advance:
    """Rounds of top-k with error feedback and all clients; the cost is seconds."""
    size, pooled = federation.network.size, federation.pooled
    least, most = max(1, size // 100), size
    count = float(fixed or most // 2)
    errors = [np.zeros(size, np.float32) for _ in federation.clients]

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal count
        step = (most - least) / math.sqrt(2 * (number + 1))
        now, fewer = round(count), max(least, round(count - step / 2))
        total, of_fewer = np.zeros(size, np.float32), np.zeros(size, np.float32)
        for each in chosen:
            whole = errors[each] + descend(federation.network, weights, federation.clients[each], plan, rng) - weights
            sent = np.where(largest(whole, now), whole, np.float32(0))
            total += sent / np.float32(len(chosen))
            of_fewer += np.where(largest(sent, fewer), sent, np.float32(0)) / np.float32(len(chosen))
            errors[each] = whole - sent
        if fixed is None:
            before = federation.network.loss(weights, pooled)
            costs = [
                seconds(VALUE_BYTES * kept) / fall
                if (fall := before - federation.network.loss(weights + change, pooled)) > 0
                else None
                for kept, change in ((now, total), (fewer, of_fewer))
            ]
            count = next_count(count, step, costs[0], costs[1], least, most)
        return weights + total, seconds(VALUE_BYTES * now)

    return advance


def run(request: Request) -> list[ResultRow]:
    """The adaptive k beside three fixed ones, in equally many simulated seconds."""
    plan = ClientPlan(rate=0.02, batch=20, steps=5)
    horizon_s = request.pick(50.0, 1000.0, 3000.0)

    def method(density: float | None) -> Study:
        def played(federation: Federation, seed: int, rounds: int) -> Played:
            fixed = None if density is None else max(1, int(density * federation.network.size))
            advance = sparse(federation, plan, fixed)
            return play(federation, advance, seed, rounds, len(federation.clients), every=5, cost=horizon_s)

        return played

    methods = {"adaptive": method(None), "1 %": method(0.01), "10 %": method(0.1), "all": method(1.0)}
    return [study(request, "sign-based adaptive density", methods, plan, rounds=(20, 800, 2400), cost="second")]


main = page_command("catalogue.adaptive_density", run)
if __name__ == "__main__":
    main()
