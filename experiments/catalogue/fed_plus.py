"""Fed+: clients stay near a robust centre instead of going back to it.

::

    client:  theta_i <- theta_i - eta (g + kappa (theta_i - z_i)),   z_i = (1 - lambda_i) theta_i + lambda_i c
             lambda_i = min(1, rho / |theta_i - c|)
    server:  c = the robust mean of theta_i (coordinator/learning/robust.py, the product's)

Each client keeps theta_i: refused where devices appear once; the robust mean needs every update: refused with masks.

Source: Kundu et al. 2022, "Robustness and Personalization in Federated Learning: A Unified Approach via Regularization"
(the book's 2.22).
"""

from __future__ import annotations

import numpy as np

from nightjar.coordinator.learning.robust import robust_mean
from nightjar.experiments.engine import Adjust, Chosen, ClientPlan, Federation, descend, sizes
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.experiments.personal import Personal, accuracies, personal_study
from nightjar.wire.parameters import Vector

KAPPA = 0.1
"""Alpha of the book's formula."""
RHO = 1.0


def pull(theta: Vector, centre: Vector, kappa: float, rho: float) -> Vector:
    """``kappa (theta - z)``: at most kappa rho long.

    >>> far, near = np.array([10.0], np.float32), np.array([0.5], np.float32)
    >>> [pull(each, np.zeros(1, np.float32), 0.5, 2.0).tolist() for each in (far, near)]
    [[1.0], [0.25]]
    """
    apart = theta - centre
    share = min(1.0, rho / max(float(np.linalg.norm(apart)), 1e-12))
    return np.float32(kappa * share) * apart


def _near(centre: Vector) -> Adjust:
    return lambda gradient, theta: gradient + pull(theta, centre, KAPPA, RHO)


def fed_plus(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of Fed+."""
    own: dict[int, Vector] = {}

    def advance(_: int, centre: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        for each in chosen:
            mine = federation.clients[each]
            own[each] = descend(federation.network, own.get(each, centre), mine, plan, rng, _near(centre))
        updates = np.stack([own[each] - centre for each in chosen])
        return (centre + robust_mean(updates, np.array(sizes(federation, chosen)))).astype(np.float32), 1.0

    def each_accuracy(centre: Vector) -> list[float]:
        return accuracies(federation, [own.get(each, centre) for each in range(len(federation.clients))])

    return Personal(advance, each_accuracy)


def run(request: Request) -> list[ResultRow]:
    """Accuracy of clients on their own tests, beside FedAvg with and without fine-tuning."""
    return personal_study(request, "Fed+", {"Fed+": fed_plus}, ClientPlan(rate=0.02, batch=20, epochs=2))


main = page_command("catalogue.fed_plus", run)
if __name__ == "__main__":
    main()
