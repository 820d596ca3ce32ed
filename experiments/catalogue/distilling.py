"""FML and FedMD: clients learn from each other's predictions and may have networks of different shape.

::

    FML     own loss: a CE + (1 - a) KL(p_shared || p_own);   shared loss: b CE + (1 - b) KL(p_own || p_shared)
    FedMD   every round: scores of all on a public set, their mean c;  each fits c on it, then its own examples

Cross-entropy to the mixture ``a y + (1 - a) p`` has the gradient of ``a CE + (1 - a) KL(p || own)``: both pages' losses
are one call. FML averages the shared network (here linear) and keeps the own (two layers). FedMD sends no weights; its
public set is the inputs of other clients' tests, without labels. Half of the clients have two layers, half are linear.
Both keep a model on the client: refused where devices appear once; FedMD with masks on weights, of which it has none.

Sources: Shen et al. 2020, "Federated Mutual Learning", equations 5 and 6; Li and Wang 2019, "FedMD", algorithm 1.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.data_sets import Examples, Floats
from nightjar.experiments.engine import Chosen, ClientPlan, Federation, batches, descend, sizes, weighted_mean
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.experiments.networks import Classifier, dense, softmax
from nightjar.experiments.personal import Personal, personal_study
from nightjar.wire.parameters import Vector

OWN_SHARE = 0.5
"""a and b."""
PUBLIC = 500


def target(labels: Floats, other: Floats, share: float) -> Floats:
    """``share y + (1 - share) p``, (b, classes).

    >>> target(np.array([[1.0, 0.0]], np.float32), np.array([[0.5, 0.5]], np.float32), 0.5).tolist()
    [[0.75, 0.25]]
    """
    return np.float32(share) * labels + np.float32(1 - share) * other


def _two_layers(federation: Federation) -> Classifier:
    return dense(federation.clients[0].x.shape[1], 32, 10)


def fml(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of FML."""
    shared, own = federation.network, _two_layers(federation)
    models = [own.start(np.random.default_rng([8, each])) for each in range(len(federation.clients))]
    rate, classes = np.float32(plan.rate), np.eye(10, dtype=np.float32)

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        trained = []
        for each in chosen:
            mine, w, v = federation.clients[each], weights.copy(), models[each].copy()
            for batch in batches(len(mine), plan, rng):
                x, y = mine.x[batch], classes[mine.y[batch]]
                of_shared, of_own = softmax(shared.scores(w, x)), softmax(own.scores(v, x))
                w -= rate * shared.gradient(w, x, target(y, of_own, OWN_SHARE))[1]
                v -= rate * own.gradient(v, x, target(y, of_shared, OWN_SHARE))[1]
            models[each] = v
            trained.append(w)
        return weighted_mean(trained, sizes(federation, chosen)).astype(np.float32), 1.0

    def each_accuracy(_: Vector) -> list[float]:
        return [own.correct(model, test) for model, test in zip(models, federation.tests, strict=True)]

    return Personal(advance, each_accuracy)


def fedmd(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of FedMD; the shared weights are not used."""
    kinds = (_two_layers(federation), federation.network)
    networks = [kinds[each % 2] for each in range(len(federation.clients))]
    models = [network.start(np.random.default_rng([8, each])) for each, network in enumerate(networks)]
    taken = np.random.default_rng(8).permutation(len(federation.test))[:PUBLIC]
    public = federation.test.x[taken]

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        consensus = softmax(np.mean([networks[each].scores(models[each], public) for each in chosen], axis=0))
        for each in chosen:
            network, digested = networks[each], models[each].copy()
            for batch in batches(len(public), ClientPlan(plan.rate, plan.batch), rng):
                digested -= np.float32(plan.rate) * network.gradient(digested, public[batch], consensus[batch])[1]
            mine: Examples = federation.clients[each]
            models[each] = descend(network, digested, mine, plan, rng)
        return weights, 1.0

    def each_accuracy(_: Vector) -> list[float]:
        both = zip(networks, models, federation.tests, strict=True)
        return [network.correct(model, test) for network, model, test in both]

    return Personal(advance, each_accuracy)


def run(request: Request) -> list[ResultRow]:
    """Accuracy of clients on their own tests, beside FedAvg with and without fine-tuning."""
    methods = {"FML": fml, "FedMD": fedmd}
    return personal_study(request, "FML", methods, ClientPlan(rate=0.02, batch=20, epochs=2))


main = page_command("catalogue.distilling", run)
if __name__ == "__main__":
    main()
