"""q-FedAvg: clients whose loss is high count more, so that accuracies are more alike.

::

    d_k = L (x - x_k)                   L = 1 / eta; x_k trained from x
    x - sum F_k^q d_k / sum h_k         h_k = q F_k^(q-1) |d_k|^2 + L F_k^q

F_k is the loss of client k at x. With q = 0 it is FedAvg with equal weights.

Source: Li et al. 2020, "Fair Resource Allocation in Federated Learning", algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nightjar.experiments.comparing import Study, study
from nightjar.experiments.engine import Advance, Chosen, ClientPlan, Federation, Played, descend_each, play
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

LEAST_LOSS = 1e-10


def fair_step(deltas: Sequence[Vector], losses: Sequence[float], q: float, rate: float) -> Vector:
    """What is added to x.

    >>> deltas = [np.array([-1.0], np.float32), np.array([0.5], np.float32)]
    >>> fair_step(deltas, [1.0, 4.0], q=0.0, rate=0.5).tolist()  # the mean
    [-0.25]
    >>> fair_step(deltas, [1.0, 4.0], q=1.0, rate=0.5).tolist()  # (2 (-1) + 8 (0.5)) / (4 + 2 + 1 + 8)
    [0.13333334028720856]

    Args:
        deltas: x_k - x.
        losses: F_k.
        q: 0 for FedAvg; the larger, the fairer.
        rate: eta.
    """
    scaled = [delta.astype(np.float64) / rate for delta in deltas]  # -d_k
    known = [max(loss, LEAST_LOSS) for loss in losses]
    below = sum(
        q * loss ** (q - 1) * float(each @ each) + loss**q / rate for each, loss in zip(scaled, known, strict=True)
    )
    above = np.sum([loss**q * each for each, loss in zip(scaled, known, strict=True)], axis=0)
    return np.asarray(above / below, np.float32)


def q_fedavg(federation: Federation, plan: ClientPlan, q: float) -> Advance:
    """Rounds of q-FedAvg."""

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        mine = [federation.clients[each] for each in chosen]
        losses = [federation.network.loss(weights, each) for each in mine]
        deltas = [each - weights for each in descend_each(federation.network, weights, mine, plan, rng)]
        return weights + fair_step(deltas, losses, q, plan.rate), 1.0

    return advance


def worst_tenth(federation: Federation, weights: Vector) -> float:
    """Mean accuracy of the tenth of the clients with the lowest, on their own test examples."""
    each = sorted(federation.network.correct(weights, test) for test in federation.tests)
    return float(np.mean(each[: max(1, len(each) // 10)]))


def run(request: Request) -> list[ResultRow]:
    """q-FedAvg beside FedAvg with equal weights: accuracy, and that of the worst tenth of the clients."""
    plan = ClientPlan(rate=0.02, batch=20)

    def method(q: float, *, worst: bool) -> Study:
        def played(federation: Federation, seed: int, rounds: int) -> Played:
            measure = (lambda weights: worst_tenth(federation, weights)) if worst else None
            return play(federation, q_fedavg(federation, plan, q), seed, rounds, 10, every=10, measure=measure)

        return played

    rounds = (4, 400, 1500)
    rows = []
    for name, worst in (("q-FedAvg, q = 1", False), ("q-FedAvg, worst tenth of the clients", True)):
        methods = {"q-FedAvg": method(1.0, worst=worst), "FedAvg": method(0.0, worst=worst)}
        rows.append(study(request, name, methods, plan, rounds=rounds, central=not worst))
    return rows


main = page_command("catalogue.q_fedavg", run)
if __name__ == "__main__":
    main()
