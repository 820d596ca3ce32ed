"""Deep gradient compression: every client sends the largest 1 % of its gradients, and no momentum is lost.

::

    u <- m u + g;  v <- v + u                 momentum correction: the velocity is accumulated, not the gradient
    send v where |v| is among the largest     density falls during the warm-up: 25 %, 6.25 %, 1.6 %, ...
    u <- 0, v <- 0 where it was sent          momentum factor masking: stale momentum does not pull twice
    x <- x - eta mean(sent)

g is clipped to N^(-1/2) of the norm that the sum may have. Each client keeps u and v: refused where devices appear
once, and with masks, since each client chooses coordinates of its own.

Source: Lin et al. 2018, "Deep Gradient Compression", algorithms 1 and 4.
"""

from __future__ import annotations

import math

import numpy as np

from nightjar.experiments.catalogue.compressing import DENSE_BYTES, VALUE_BYTES, kept_of, largest
from nightjar.experiments.comparing import Study, playing, study
from nightjar.experiments.data_sets import Examples
from nightjar.experiments.engine import Advance, Chosen, ClientPlan, Federation, gradient_each
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

MOMENTUM = 0.9
DENSITY = 0.01
CLIP = 5.0
WARM_UP = 20
"""Rounds between two densities of the warm-up."""


def compress(u: Vector, v: Vector, gradient: Vector, count: int, momentum: float) -> tuple[Vector, Vector, Vector]:
    """What is sent, and the next u and v.

    >>> zero = np.zeros(2, np.float32)
    >>> sent, u, v = compress(zero, zero, np.array([1.0, 3.0], np.float32), 1, 0.5)
    >>> sent.tolist(), u.tolist(), v.tolist()
    ([0.0, 3.0], [1.0, 0.0], [1.0, 0.0])
    >>> sent, u, v = compress(u, v, np.array([1.0, 1.0], np.float32), 1, 0.5)  # u: 1.5, 1; v: 2.5, 1
    >>> sent.tolist(), v.tolist()
    ([2.5, 0.0], [0.0, 1.0])
    """
    u = np.float32(momentum) * u + gradient
    v = v + u
    kept = largest(v, count)
    return np.where(kept, v, np.float32(0)), np.where(kept, np.float32(0), u), np.where(kept, np.float32(0), v)


def density_at(number: int) -> float:
    """The warm-up.

    >>> [density_at(number) for number in (0, 20, 40, 60)]
    [0.25, 0.0625, 0.015625, 0.01]
    """
    return max(DENSITY, 0.25 ** (1 + number // WARM_UP))


def clipped_gradients(
    federation: Federation, weights: Vector, chosen: Chosen, batch: int, rng: np.random.Generator
) -> list[Vector]:
    """The gradient of a random batch of each client, at most CLIP / sqrt(N) long."""

    def drawn(examples: Examples) -> Examples:
        return examples.at(np.random.default_rng(int(rng.integers(2**32))).integers(0, len(examples), batch))

    most = CLIP / math.sqrt(len(federation.clients))
    found = gradient_each(federation.network, weights, (drawn(federation.clients[each]) for each in chosen))
    return [each * np.float32(min(1.0, most / max(float(np.linalg.norm(each)), 1e-12))) for each in found]


def dgc(federation: Federation, plan: ClientPlan, *, dense: bool) -> Advance:
    """Rounds of one gradient of every client; the cost is bytes that a client sends."""
    size, clients = federation.network.size, len(federation.clients)
    u = [np.zeros(size, np.float32) for _ in range(clients)]
    v = [np.zeros(size, np.float32) for _ in range(clients)]

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        count = size if dense else kept_of(size, density_at(number))
        total = np.zeros(size, np.float32)
        gradients = clipped_gradients(federation, weights, chosen, plan.batch, rng)
        for each, gradient in zip(chosen, gradients, strict=True):
            if dense:
                u[each] = sent = np.float32(MOMENTUM) * u[each] + gradient
            else:
                sent, u[each], v[each] = compress(u[each], v[each], gradient, count, MOMENTUM)
            total += sent
        cost = size * DENSE_BYTES if dense else count * VALUE_BYTES
        return weights - np.float32(plan.rate / len(chosen)) * total, float(cost)

    return advance


def run(request: Request) -> list[ResultRow]:
    """DGC beside SGD with momentum that sends everything, by bytes."""
    plan = ClientPlan(rate=0.1, batch=20)

    def method(*, dense: bool) -> Study:
        return playing(lambda federation: dgc(federation, plan, dense=dense), cohort=None, every=10)

    methods = {"DGC": method(dense=False), "dense": method(dense=True)}
    return [study(request, "DGC, density 1 %", methods, plan, rounds=(20, 500, 1500), cost="byte")]


main = page_command("catalogue.dgc", run)
if __name__ == "__main__":
    main()
