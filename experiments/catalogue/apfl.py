"""APFL: each client mixes a model of its own with the shared one, and learns how much.

::

    m = alpha v + (1 - alpha) w                what the client uses
    w <- w - eta g(w)                          averaged as ever
    v <- v - eta alpha g(m)                    stays on the client
    alpha <- clip(alpha - eta (v - w) . g(m))  once a round

v and alpha stay on the client: refused where devices appear once.

Source: Deng, Kamani and Mahdavi 2020, "Adaptive Personalized Federated Learning", algorithm 1 and equation 10.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.engine import Chosen, ClientPlan, Federation, batches, sizes, weighted_mean
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.experiments.personal import Personal, accuracies, personal_study
from nightjar.wire.parameters import Vector

FIRST_ALPHA = 0.5


def mixed(alpha: float, own: Vector, shared: Vector) -> Vector:
    """The model m that the client uses.

    >>> mixed(0.25, np.array([4.0], np.float32), np.array([8.0], np.float32)).tolist()
    [7.0]
    """
    return np.float32(alpha) * own + np.float32(1 - alpha) * shared


def next_alpha(alpha: float, own: Vector, shared: Vector, gradient: Vector, rate: float) -> float:
    """Alpha after a step, 0 to 1.

    >>> next_alpha(0.5, np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([1.0, -3.0]), 0.1)
    0.7
    """
    return float(np.clip(alpha - rate * float((own - shared) @ gradient), 0, 1))


def apfl(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of APFL."""
    own: dict[int, Vector] = {}
    alphas = [FIRST_ALPHA] * len(federation.clients)

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        rate, gradient = np.float32(plan.rate), federation.network.gradient
        trained = []
        for each in chosen:
            mine, alpha = federation.clients[each], alphas[each]
            shared, v = weights.copy(), own.get(each, weights).copy()
            for at, batch in enumerate(batches(len(mine), plan, rng)):
                x, y = mine.x[batch], mine.y[batch]
                slope = gradient(mixed(alpha, v, shared), x, y)[1]
                if at == 0:
                    alphas[each] = next_alpha(alpha, v, shared, slope, plan.rate)
                shared -= rate * gradient(shared, x, y)[1]
                v -= rate * np.float32(alpha) * slope
            own[each] = v
            trained.append(shared)
        return weighted_mean(trained, sizes(federation, chosen)).astype(np.float32), 1.0

    def each_accuracy(weights: Vector) -> list[float]:
        clients = range(len(federation.clients))
        return accuracies(federation, [mixed(alphas[each], own.get(each, weights), weights) for each in clients])

    return Personal(advance, each_accuracy)


def run(request: Request) -> list[ResultRow]:
    """Accuracy of clients on their own tests, beside FedAvg with and without fine-tuning."""
    return personal_study(request, "APFL", {"APFL": apfl}, ClientPlan(rate=0.02, batch=20, epochs=2))


main = page_command("catalogue.apfl", run)
if __name__ == "__main__":
    main()
