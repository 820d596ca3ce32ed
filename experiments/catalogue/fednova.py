"""FedNova: clients that take unequally many steps do not pull the model their way.

::

    d_i = (x_i - x) / tau_i           tau_i: steps of client i
    x + tau_eff sum p_i d_i           p_i = n_i / n,  tau_eff = sum p_i tau_i

FedAvg weighs client i by p_i tau_i in effect, and so minimises another objective. The steps differ here as in a fixed
window of time: each client of a round takes 1 to 5 passes.

Source: Wang et al. 2020, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nightjar.experiments.comparing import Study, playing, study
from nightjar.experiments.engine import Advance, Chosen, ClientPlan, Federation, descend, sizes, weighted_mean
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector


def normalised_step(deltas: Sequence[Vector], steps: Sequence[int], weights: Sequence[float]) -> Vector:
    """``tau_eff sum p_i d_i``.

    >>> ones, twos = np.ones(1, np.float32), np.full(1, 8.0, np.float32)
    >>> normalised_step([ones, twos], [1, 4], [1, 1]).tolist()  # tau_eff 2.5, mean of 1 and 2: 1.5
    [3.75]

    Args:
        deltas: trained minus base, (n,) each.
        steps: tau_i.
        weights: n_i.
    """
    effective = np.average(steps, weights=weights)
    mean = weighted_mean([delta / np.float32(tau) for delta, tau in zip(deltas, steps, strict=True)], weights)
    return (effective * mean).astype(np.float32)


def unequal(federation: Federation, plan: ClientPlan, *, normalise: bool) -> Advance:
    """Rounds of clients that make 1 to 5 passes, by FedNova or by FedAvg."""

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        deltas, steps = [], []
        for each in chosen:
            mine = ClientPlan(plan.rate, plan.batch, epochs=int(rng.integers(1, 6)))
            deltas.append(descend(federation.network, weights, federation.clients[each], mine, rng) - weights)
            steps.append(mine.count(len(federation.clients[each])))
        shares = sizes(federation, chosen)
        step = normalised_step(deltas, steps, shares) if normalise else weighted_mean(deltas, shares)
        return (weights + step).astype(np.float32), 1.0

    return advance


def run(request: Request) -> list[ResultRow]:
    """FedNova beside FedAvg where clients take unequally many steps."""
    plan = ClientPlan(rate=0.02, batch=20)

    def method(*, normalise: bool) -> Study:
        return playing(lambda federation: unequal(federation, plan, normalise=normalise))

    methods = {"FedNova": method(normalise=True), "FedAvg": method(normalise=False)}
    return [study(request, "FedNova, unequal steps", methods, plan)]


main = page_command("catalogue.fednova", run)
if __name__ == "__main__":
    main()
