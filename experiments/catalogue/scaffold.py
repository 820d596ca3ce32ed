"""SCAFFOLD: control variates cancel what pulls a client away from the others.

::

    y <- y - eta (g - c_i + c)                  K steps from x
    c_i+ = c_i - c + (x - y) / (K eta)          option II
    x + mean(y - x);  c + |S| / N mean(c_i+ - c_i)

A client must come back with its c_i: refused where devices appear once
(:mod:`nightjar.experiments.catalogue.refusals`). It sends twice as much as in FedAvg.

Source: Karimireddy et al. 2020, "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", algorithm 1.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.comparing import playing, study
from nightjar.experiments.engine import Adjust, Advance, Chosen, ClientPlan, Federation, averaging, descend
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector


def next_variate(own: Vector, shared: Vector, start: Vector, trained: Vector, steps: int, rate: float) -> Vector:
    """c_i+ of option II.

    >>> x, y = np.array([1.0], np.float32), np.array([0.0], np.float32)
    >>> next_variate(np.array([0.5], np.float32), np.array([0.25], np.float32), x, y, steps=5, rate=0.1).tolist()
    [2.25]

    Args:
        own: c_i.
        shared: c.
        start: x.
        trained: y.
        steps: K.
        rate: eta.
    """
    return (own - shared + (start - trained) / np.float32(steps * rate)).astype(np.float32)


def scaffold(federation: Federation, plan: ClientPlan) -> Advance:
    """Rounds of SCAFFOLD with server rate 1; clients count alike."""
    clients, size = len(federation.clients), federation.network.size
    shared = np.zeros(size, np.float32)
    own = [np.zeros(size, np.float32) for _ in range(clients)]

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal shared
        deltas, changes = [], []
        for each in chosen:
            examples = federation.clients[each]
            trained = descend(federation.network, weights, examples, plan, rng, _corrected(shared - own[each]))
            renewed = next_variate(own[each], shared, weights, trained, plan.count(len(examples)), plan.rate)
            deltas.append(trained - weights)
            changes.append(renewed - own[each])
            own[each] = renewed
        shared = shared + np.float32(len(chosen) / clients) * np.mean(changes, axis=0, dtype=np.float32)
        return weights + np.mean(deltas, axis=0, dtype=np.float32), 1.0

    return advance


def _corrected(by: Vector) -> Adjust:
    return lambda gradient, _: gradient + by


def run(request: Request) -> list[ResultRow]:
    """SCAFFOLD beside FedAvg and FedProx on clients that differ."""
    plan = ClientPlan(rate=0.02, batch=20, epochs=5)

    methods = {
        "SCAFFOLD": playing(lambda federation: scaffold(federation, plan)),
        "FedAvg": playing(lambda federation: averaging(federation, plan)),
        "FedProx": playing(lambda federation: averaging(federation, plan, mu=0.1)),
    }
    return [study(request, "SCAFFOLD", methods, plan, rounds=(3, 100, 300))]


main = page_command("catalogue.scaffold", run)
if __name__ == "__main__":
    main()
