"""CMFL: a client sends only if its update points where the last shared update did.

::

    relevance = share of coordinates whose sign is that of the last shared update;  send if it is at least the threshold

A client that does not send costs one byte here. In the first round all send. Refused with masks, which need to know in
advance who sends.

Source: Wang, Wang and Li 2019, "CMFL: Mitigating Communication Overhead for Federated Learning", equation 5.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.catalogue.compressing import DENSE_BYTES
from nightjar.experiments.comparing import Study, playing, study
from nightjar.experiments.engine import Advance, Chosen, ClientPlan, Federation, descend, sizes, weighted_mean
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector


def relevance(update: Vector, shared: Vector) -> float:
    """Share of equal signs, 0 to 1.

    >>> relevance(np.array([1.0, -2.0, 3.0, 0.5]), np.array([2.0, -1.0, -1.0, 0.1]))
    0.75
    """
    return float((np.sign(update) == np.sign(shared)).mean())


def cmfl(federation: Federation, plan: ClientPlan, threshold: float) -> Advance:
    """Rounds of CMFL; the cost is bytes that all clients sent. A round in which nobody sends changes nothing."""
    last: Vector | None = None

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal last
        deltas = [
            descend(federation.network, weights, federation.clients[each], plan, rng) - weights for each in chosen
        ]
        kept = [at for at, delta in enumerate(deltas) if last is None or relevance(delta, last) >= threshold]
        cost = float(len(kept) * weights.size * DENSE_BYTES + len(chosen) - len(kept))
        if not kept:
            return weights, cost
        shares = sizes(federation, [chosen[at] for at in kept])
        last = weighted_mean([deltas[at] for at in kept], shares).astype(np.float32)
        return weights + last, cost

    return advance


def run(request: Request) -> list[ResultRow]:
    """CMFL beside FedAvg by bytes."""
    plan = ClientPlan(rate=0.02, batch=20)

    def method(threshold: float) -> Study:
        return playing(lambda federation: cmfl(federation, plan, threshold))

    methods = {"CMFL, 0.5": method(0.5), "CMFL, 0.6": method(0.6), "FedAvg": method(0.0)}
    return [study(request, "CMFL", methods, plan, cost="byte")]


main = page_command("catalogue.cmfl", run)
if __name__ == "__main__":
    main()
