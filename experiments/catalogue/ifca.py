"""IFCA: several shared models; each client trains the one that fits its examples best.

::

    j_i = argmin over j of F_i(w_j);   w_j + mean over clients with j_i = j of (trained - w_j)

Every device is sent all models, and its choice tells something about its examples: refused with masks, unless each
cluster is a task of its own.

Source: Ghosh et al. 2020, "An Efficient Framework for Clustered Federated Learning", algorithm 1, model averaging.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.data_sets import Examples
from nightjar.experiments.engine import Chosen, ClientPlan, Federation, descend
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.experiments.networks import Classifier
from nightjar.experiments.personal import Personal, accuracies, personal_study
from nightjar.wire.parameters import Vector

CLUSTERS = 3


def best(network: Classifier, models: list[Vector], mine: Examples) -> int:
    """j_i."""
    return int(np.argmin([network.loss(model, mine) for model in models]))


def ifca(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of IFCA; the models start apart, at random."""
    network = federation.network
    models = [network.start(np.random.default_rng([8, cluster])) for cluster in range(CLUSTERS)]

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        members: dict[int, list[Vector]] = {}
        for each in chosen:
            mine = federation.clients[each]
            cluster = best(network, models, mine)
            members.setdefault(cluster, []).append(descend(network, models[cluster], mine, plan, rng))
        for cluster, trained in members.items():
            models[cluster] = np.mean(trained, axis=0, dtype=np.float32)
        return weights, 1.0

    def each_accuracy(_: Vector) -> list[float]:
        return accuracies(federation, [models[best(network, models, mine)] for mine in federation.clients])

    return Personal(advance, each_accuracy)


def run(request: Request) -> list[ResultRow]:
    """Accuracy of clients on their own tests, beside FedAvg with and without fine-tuning."""
    return personal_study(
        request, f"IFCA, {CLUSTERS} models", {"IFCA": ifca}, ClientPlan(rate=0.02, batch=20, epochs=2)
    )


main = page_command("catalogue.ifca", run)
if __name__ == "__main__":
    main()
