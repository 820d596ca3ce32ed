"""Hierarchical aggregation: the mean of groups' means is the mean, if a group counts with its examples.

::

    m_g = sum over g of n_i x_i / n_g,   sum n_g m_g / n  =  sum n_i x_i / n

The book weighs a group by its number of parties, which is right only for plain means: shown beside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nightjar.experiments.engine import ClientPlan, Federation, descend, sizes, synthetic_federation, weighted_mean
from nightjar.experiments.frame import Request, ResultRow, averaged, page_command, row
from nightjar.wire.parameters import Vector

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
    plan, everybody = ClientPlan(rate=0.02, batch=20), range(len(federation.clients))
    rng = np.random.default_rng([seed, 4])
    weights = federation.network.start(np.random.default_rng([seed, 2]))
    for _ in range(rounds):
        models = [descend(federation.network, weights, federation.clients[each], plan, rng) for each in everybody]
        mean = hierarchical_mean(models, sizes(federation, everybody), groups, by_examples=by_examples)
        weights = mean.astype(np.float32)
    return weights


def run(request: Request) -> list[ResultRow]:
    """Largest difference of a weight from flat averaging, and accuracies."""
    return averaged([_of_seed(request, seed)] for seed in request.pick((1,), (1, 2, 3), (1, 2, 3)))


def _of_seed(request: Request, seed: int) -> ResultRow:
    rounds, federation = request.pick(2, 30, 100), synthetic_federation(seed)
    found = {
        "flat": trained(federation, seed, rounds, 1),
        "by examples": trained(federation, seed, rounds, GROUPS),
        "by parties": trained(federation, seed, rounds, GROUPS, by_examples=False),
    }
    right, wrong = (float(np.abs(found[name] - found["flat"]).max()) for name in ("by examples", "by parties"))
    accuracies = {
        f"accuracy {name}": federation.network.correct(weights, federation.test) for name, weights in found.items()
    }
    name, measure = f"hierarchical averaging in {GROUPS} groups, beside flat", "largest difference of a weight"
    return row(request, name, [right], seeds=[seed], measure=measure, figures={"by parties": wrong, **accuracies})


main = page_command("hierarchical", run)
if __name__ == "__main__":
    main()
