"""CFL: splits the clients in two where their updates go on pulling apart though the mean stands still.

::

    split a cluster if |mean d_i| < eps_1 max |d_i|  and  max |d_i| > eps_2 of the first round
    into the two parts whose largest cosine between them is smallest;  each part goes on with a model of its own

The paper has eps_1 as an absolute length; here it is a share of the longest update. The server must see every client's
update, and the same clients again: refused with masks, and where devices appear once.

Source: Sattler, Müller and Samek 2020, "Clustered Federated Learning: Model-Agnostic Distributed Multi-Task
Optimization under Privacy Constraints", algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nightjar.experiments.engine import Chosen, ClientPlan, Federation, descend
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.experiments.personal import Personal, accuracies, personal_study
from nightjar.wire.parameters import Vector

EPS_1 = 0.4
EPS_2 = 0.1
WAIT = 10
"""Rounds before a cluster may be split: near convergence."""


def bipartition(updates: Sequence[Vector]) -> tuple[list[int], list[int]]:
    """The two parts of least largest cosine between them, by joining the most similar parts until two are left.

    >>> updates = [np.array(each, np.float32) for each in ([1, 0], [-1, 0.1], [1, 0.1])]
    >>> bipartition(updates)
    ([0, 2], [1])
    """
    units = np.stack([each / max(float(np.linalg.norm(each)), 1e-12) for each in updates])
    cosines = units @ units.T
    parts = [[each] for each in range(len(updates))]
    while len(parts) > 2:
        pairs = [(a, b) for a in range(len(parts)) for b in range(a + 1, len(parts))]
        a, b = max(pairs, key=lambda pair: float(cosines[np.ix_(parts[pair[0]], parts[pair[1]])].max()))
        parts[a] = sorted(parts[a] + parts.pop(b))
    return parts[0], parts[1]


def torn(updates: Sequence[Vector], first_norm: float) -> bool:
    """Whether a cluster is to be split."""
    longest = max(float(np.linalg.norm(each)) for each in updates)
    mean = float(np.linalg.norm(np.mean(updates, axis=0)))
    return mean < EPS_1 * longest and longest > EPS_2 * first_norm


def cfl(federation: Federation, plan: ClientPlan) -> Personal:
    """Rounds of CFL with all clients."""
    clusters = [list(range(len(federation.clients)))]
    models: list[Vector] = []
    first_norm = 0.0

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal clusters, models, first_norm
        following, moved = [], []
        for members, model in zip(clusters, models or [weights], strict=True):
            mine = [federation.clients[each] for each in members]
            updates = [descend(federation.network, model, each, plan, rng) - model for each in mine]
            first_norm = first_norm or max(float(np.linalg.norm(each)) for each in updates)
            ready = number >= WAIT and number % WAIT == 0 and len(members) > 2
            parts = bipartition(updates) if ready and torn(updates, first_norm) else (list(range(len(members))),)
            for part in parts:
                following.append([members[at] for at in part])
                moved.append(model + np.mean([updates[at] for at in part], axis=0, dtype=np.float32))
        clusters, models = following, moved
        return weights, len(federation.clients) / len(chosen)

    def each_accuracy(weights: Vector) -> list[float]:
        own = {each: model for members, model in zip(clusters, models or [weights], strict=True) for each in members}
        return accuracies(federation, [own[each] for each in range(len(federation.clients))])

    return Personal(advance, each_accuracy)


def run(request: Request) -> list[ResultRow]:
    """Accuracy of clients on their own tests, beside FedAvg; a round of all clients costs three of theirs."""
    return personal_study(request, "CFL", {"CFL": cfl}, ClientPlan(rate=0.02, batch=20, epochs=2))


main = page_command("catalogue.cfl", run)
if __name__ == "__main__":
    main()
