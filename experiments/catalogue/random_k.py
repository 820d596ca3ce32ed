"""Random-k beside top-k: an unbiased compressor scales up what it keeps, and its noise grows with d / k.

::

    random-k   C(z) = z d / k on k coordinates drawn by a common seed, else 0      E C(z) = z, variance (d/k - 1) |z|^2
    top-k      C(z) = z on the k largest, else 0; error feedback: e <- e + z - C(e + z)

A common seed chooses the same coordinates for all clients of a round, so no index is sent and masks cancel.

Source: Wangni et al. 2018; Stich et al. 2018, "Sparsified SGD with Memory"; the book's 3.7, 3.12 and 3.13.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.catalogue.compressing import DENSE_BYTES, VALUE_BYTES, kept_of, largest, seconds
from nightjar.experiments.comparing import Study, playing, study
from nightjar.experiments.engine import (
    Advance,
    Chosen,
    ClientPlan,
    Federation,
    averaging,
    descend,
    priced,
    sizes,
    weighted_mean,
)
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

DENSITY = 0.1


def random_k(values: Vector, count: int, seed: int) -> Vector:
    """The unbiased compressor; the same coordinates for the same seed.

    >>> z = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    >>> np.mean([random_k(z, 2, seed) for seed in range(4000)], axis=0).round(0).tolist()
    [1.0, 2.0, 3.0, 4.0]
    >>> int(np.count_nonzero(random_k(z, 2, 7)))
    2
    """
    kept = np.random.default_rng(seed).choice(values.size, count, replace=False)
    result = np.zeros(values.size, np.float32)
    result[kept] = values[kept] * np.float32(values.size / count)
    return result


def compressed(federation: Federation, plan: ClientPlan, *, top: bool) -> Advance:
    """Rounds of FedAvg on compressed changes; the cost is seconds."""
    size = federation.network.size
    count = kept_of(size, DENSITY)
    errors = [np.zeros(size, np.float32) for _ in federation.clients]

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        seed, sent = int(rng.integers(2**32)), []
        for each in chosen:
            delta = descend(federation.network, weights, federation.clients[each], plan, rng) - weights
            if top:
                whole = errors[each] + delta
                delta = np.where(largest(whole, count), whole, np.float32(0))
                errors[each] = whole - delta
            else:
                delta = random_k(delta, count, seed)
            sent.append(delta)
        mean = weighted_mean(sent, sizes(federation, chosen))
        return (weights + mean).astype(np.float32), seconds(count * (VALUE_BYTES if top else DENSE_BYTES))

    return advance


def run(request: Request) -> list[ResultRow]:
    """Random-k, top-k with error feedback and dense FedAvg, by simulated seconds."""
    plan = ClientPlan(rate=0.02, batch=20)

    def method(*, top: bool) -> Study:
        return playing(lambda federation: compressed(federation, plan, top=top))

    def dense(federation: Federation) -> Advance:
        return priced(averaging(federation, plan), lambda _: seconds(DENSE_BYTES * federation.network.size))

    methods = {"random-k": method(top=False), "top-k with error feedback": method(top=True), "dense": playing(dense)}
    return [study(request, "random-k, 10 %", methods, plan, cost="second")]


main = page_command("catalogue.random_k", run)
if __name__ == "__main__":
    main()
