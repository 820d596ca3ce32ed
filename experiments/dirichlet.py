"""The book's personalisation study: who gains from the shared model, by how much the parties differ.

MNIST over 100 parties in shares of Dirichlet(alpha) a class, a network of two layers, 100 rounds of FedAvg with 10
parties; alone: 10 passes of each party. What counts is each party's accuracy with the shared model minus its accuracy
alone, on a fifth of its own images: its histogram over the parties, before and after each method of personalisation.

The book prints no figures; it says that some parties gain nothing, and more of them with a small alpha.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nightjar.experiments.catalogue.apfl import apfl
from nightjar.experiments.catalogue.distilling import fml
from nightjar.experiments.catalogue.fed_plus import fed_plus
from nightjar.experiments.catalogue.ifca import ifca
from nightjar.experiments.catalogue.per_fedavg import per_fedavg
from nightjar.experiments.data_sets import DataSet, dirichlet, generated, mnist
from nightjar.experiments.engine import ClientPlan, Federation, play
from nightjar.experiments.frame import Curve, Request, ResultRow, averaged, page_command, row
from nightjar.experiments.networks import dense
from nightjar.experiments.personal import Personalise, fine_tuned, local_accuracies, shared_only

METHODS: dict[str, Personalise] = {
    "FedAvg": shared_only,
    "fine-tuned": fine_tuned,
    "Per-FedAvg": per_fedavg,
    "APFL": apfl,
    "IFCA": ifca,
    "FML": fml,
    "Fed+": fed_plus,
}
ALPHAS = (0.1, 1.0, 10.0)
EDGES = np.linspace(-0.5, 0.5, 21)


def parties(data: DataSet, count: int, alpha: float, seed: int) -> Federation:
    """The parties, each with a fifth of its images as its test."""
    rng = np.random.default_rng([seed, 7])
    parts = [rng.permutation(part) for part in dirichlet(data.train.y, count, alpha, rng)]
    return Federation(
        dense(784, 128, 10),
        [data.train.at(part[len(part) // 5 :]) for part in parts],
        data.test,
        [data.train.at(part[: len(part) // 5]) for part in parts],
    )


def histogram(gains: Sequence[float]) -> Curve:
    """Number of parties by gain, at the middle of each bin; gains beyond the ends are in the outer bins.

    >>> [bin for bin in histogram([-0.9, 0.01, 0.02]) if bin[1]]
    [(-0.475, 1.0), (0.025, 2.0)]
    """
    counts, _ = np.histogram(np.clip(gains, EDGES[0], EDGES[-1]), EDGES)
    middles = (EDGES[:-1] + EDGES[1:]) / 2
    return [(round(float(x), 3), float(y)) for x, y in zip(middles, counts, strict=True)]


def run(request: Request) -> list[ResultRow]:
    """Mean gain over the parties of each method, the share that loses, and the histograms."""
    return averaged(_of_seed(request, seed) for seed in request.pick((1,), (1,), (1, 2, 3)))


def _of_seed(request: Request, seed: int) -> list[ResultRow]:
    data = generated(seed) if request.form.value == "smoke" else mnist(request.data)
    count, rounds, alone = request.pick((10, 2, 1), (100, 20, 10), (100, 100, 10))
    plan = ClientPlan(rate=0.05, batch=20)
    rows = []
    for alpha in ALPHAS:
        federation = parties(data, count, alpha, seed)
        local = local_accuracies(federation, plan, seed, alone)
        curves: dict[str, Curve] = {}
        means, losing = {}, {}
        for name, method in METHODS.items():
            personal = method(federation, plan)
            weights = play(federation, personal.advance, seed, rounds, 10, every=rounds).weights
            gains = np.subtract(personal.accuracies(weights), local)
            means[name], losing[name] = float(gains.mean()), float((gains < 0).mean())
            curves[name] = histogram(gains.tolist())
        figures = {"alone": float(np.mean(local))}
        for name in METHODS:
            figures |= {name: means[name], f"{name} losing": losing[name]}
        name = f"Dirichlet({alpha:g}) parties of MNIST, FedAvg minus alone"
        axes = ("gain", "parties")
        made = row(
            request,
            name,
            [means["FedAvg"]],
            seeds=[seed],
            measure="mean gain of parties",
            figures=figures,
            curves=curves,
            axes=axes,
        )
        rows.append(made)
    return rows


main = page_command("dirichlet", run)
if __name__ == "__main__":
    main()
