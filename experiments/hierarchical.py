"""Hierarchical aggregation: the mean of groups' means is the mean, if a group counts with its examples.

::

    m_g = sum over g of n_i x_i / n_g,   sum n_g m_g / n  =  sum n_i x_i / n

The book weighs a group by its number of parties, which is right only for plain means: shown beside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from experiments.engine import Federation, Plan, descend, sizes, synthetic_federation, weighted_mean
from experiments.frame import Request, Row, page_command, row
from wire.parameters import Vector

GROUPS = 4


def hierarchical_mean(
    vectors: Sequence[Vector], examples: Sequence[float], groups: int, *, by_examples: bool
) -> npt.NDArray[np.float64]:
    """The mean of the groups' means, (n,) float64.

    >>> x = [np.array([each], np.float32) for each in (1.0, 2.0, 6.0)]
    >>> hierarchical_mean(x, [1.0, 1.0, 2.0], 2, by_examples=True).tolist()  # (2 * 1.5 + 2 * 6) / 4
    [3.75]
    >>> hierarchical_mean(x, [1.0, 1.0, 2.0], 2, by_examples=False).tolist()  # (2 * 1.5 + 1 * 6) / 3
    [3.0]
    """
    means, weights = [], []
    for part in np.array_split(np.arange(len(vectors)), groups):
        counts = [examples[each] for each in part]
        means.append(weighted_mean([vectors[each] for each in part], counts))
        weights.append(sum(counts) if by_examples else float(len(part)))
    return np.average(means, axis=0, weights=weights)


def trained(federation: Federation, seed: int, rounds: int, groups: int, *, by_examples: bool = True) -> Vector:
    """Weights after rounds of all clients; one group is flat."""
    plan, everybody = Plan(rate=0.02, batch=20), range(len(federation.clients))
    rng = np.random.default_rng([seed, 4])
    weights = federation.network.start(np.random.default_rng([seed, 2]))
    for _ in range(rounds):
        models = [descend(federation.network, weights, federation.clients[each], plan, rng) for each in everybody]
        mean = hierarchical_mean(models, sizes(federation, everybody), groups, by_examples=by_examples)
        weights = mean.astype(np.float32)
    return weights


def run(request: Request) -> list[Row]:
    """Largest difference of a weight from flat averaging, and accuracies."""
    rounds, seeds = request.pick((2, [1]), (30, [1, 2, 3]), (100, [1, 2, 3]))
    differences, wrong = [], []
    accuracies: dict[str, list[float]] = {"flat": [], "by examples": [], "by parties": []}
    for seed in seeds:
        federation = synthetic_federation(seed)
        flat = trained(federation, seed, rounds, 1)
        right = trained(federation, seed, rounds, GROUPS)
        by_parties = trained(federation, seed, rounds, GROUPS, by_examples=False)
        differences.append(float(np.abs(right - flat).max()))
        wrong.append(float(np.abs(by_parties - flat).max()))
        for name, weights in (("flat", flat), ("by examples", right), ("by parties", by_parties)):
            accuracies[name].append(federation.network.correct(weights, federation.test))
    figures = {
        "by parties": float(np.mean(wrong)),
        **{f"accuracy {name}": float(np.mean(found)) for name, found in accuracies.items()},
    }
    name = f"hierarchical averaging in {GROUPS} groups, beside flat"
    return [row(request, name, differences, seeds=seeds, measure="largest difference of a weight", figures=figures)]


main = page_command("hierarchical", run)
if __name__ == "__main__":
    main()
