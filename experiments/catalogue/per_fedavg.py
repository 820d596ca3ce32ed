"""Per-FedAvg and Reptile: a shared start from which a few steps of a client's own go far.

::

    Per-FedAvg, first order:  w' = w - alpha g(w; one batch);   w <- w - beta g(w'; the next batch)
    Reptile:                  w + epsilon mean(w_i - w)         w_i: SGD of client i from w

A client's own model is the shared one after ``STEPS`` steps of SGD. Reptile with epsilon = 1 is fine-tuned FedAvg with
equal weights.

Sources: Fallah, Mokhtari and Ozdaglar 2020, "Personalized Federated Learning with Theoretical Guarantees: A
Model-Agnostic Meta-Learning Approach", algorithm 1 with FO; Nichol, Achiam and Schulman 2018.
"""

from __future__ import annotations

import itertools

import numpy as np

from nightjar.experiments.data_sets import Examples
from nightjar.experiments.engine import Chosen, ClientPlan, Federation, batches, descend
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.experiments.networks import Classifier
from nightjar.experiments.personal import Personal, accuracies, personal_study, tuned
from nightjar.wire.parameters import Vector

STEPS = 20
EPSILON = 0.5


def meta_descend(
    network: Classifier, start: Vector, mine: Examples, plan: ClientPlan, rng: np.random.Generator
) -> Vector:
    """A client's weights after first-order Per-FedAvg with alpha = beta, one meta step for each two batches."""
    weights, rate = start.copy(), np.float32(plan.rate)
    for support, query in itertools.pairwise(batches(len(mine), plan, rng)):
        adapted = weights - rate * network.gradient(weights, mine.x[support], mine.y[support])[1]
        weights -= rate * network.gradient(adapted, mine.x[query], mine.y[query])[1]
    return weights


def adapted(federation: Federation, plan: ClientPlan, weights: Vector) -> list[float]:
    """Accuracies after a few steps of each client."""
    return accuracies(federation, tuned(federation, weights, ClientPlan(plan.rate, plan.batch, steps=STEPS)))


def per_fedavg(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of Per-FedAvg."""

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        mine = [federation.clients[each] for each in chosen]
        trained = [meta_descend(federation.network, weights, each, plan, rng) for each in mine]
        return np.mean(trained, axis=0, dtype=np.float32), 1.0

    return Personal(advance, lambda weights: adapted(federation, plan, weights))


def reptile(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of Reptile."""

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        trained = [descend(federation.network, weights, federation.clients[each], plan, rng) for each in chosen]
        return weights + np.float32(EPSILON) * (np.mean(trained, axis=0, dtype=np.float32) - weights), 1.0

    return Personal(advance, lambda weights: adapted(federation, plan, weights))


def run(request: Request) -> list[ResultRow]:
    """Accuracy of clients on their own tests, beside FedAvg with and without fine-tuning."""
    methods = {"Per-FedAvg": per_fedavg, "Reptile": reptile}
    return personal_study(request, "Per-FedAvg", methods, ClientPlan(rate=0.02, batch=20, epochs=2))


main = page_command("catalogue.per_fedavg", run)
if __name__ == "__main__":
    main()
