"""Shakespeare with roles as clients, beside the same speeches dealt at random.

The LSTM and its training are those of :mod:`nightjar.experiments.language_model`: next words instead of LEAF's next
characters. In a round ten roles train an epoch; a role's last fifth of speeches is test text. ``DATA/shakespeare``
holds any texts with labelled speakers (:mod:`nightjar.experiments.roles`). The smoke form invents its people.

Source: the book's chapter 2; Caldas et al. 2018, "LEAF: A Benchmark for Federated Settings".
"""

from __future__ import annotations

from statistics import fmean

import numpy as np

from nightjar.experiments.data_sets import place
from nightjar.experiments.frame import Form, Request, ResultRow, page_command, row
from nightjar.experiments.language_model import RATES, LanguageModel, Text
from nightjar.experiments.roles import roles
from nightjar.models import corpora

LEAST = 20
"""Speeches of a role that takes part."""
COHORT = 10


def run(request: Request) -> list[ResultRow]:
    """Perplexity by rounds where clients are roles, and where they are not, beside training in one place."""
    if request.form is Form.SMOKE:
        said = {user: list(own) for user, own in corpora.load("personas", 1, people=4, messages=20).users.items()}
    else:
        said = roles(place(request.data, "shakespeare"), LEAST)
    rounds, seeds = request.pick(1, 15, 200), request.pick([1], [1, 2], [1, 2, 3])
    names = sorted(said, key=lambda role: (-len(said[role]), role))[: request.pick(4, 50, 400)]
    cuts = {role: len(said[role]) * 4 // 5 for role in names}
    train = [line for role in names for line in said[role][: cuts[role]]]
    test = [line for role in names for line in said[role][cuts[role] :]]
    federation = LanguageModel(Text("shakespeare", train, test, test), request.pick(200, None, None))
    shuffled = [train[at] for at in np.random.default_rng(1).permutation(len(train))]
    ends = np.cumsum([cuts[role] for role in names])[:-1]
    parts = {
        "by role": [federation.part(said[role][: cuts[role]]) for role in names],
        "dealt at random": [federation.part(list(mine)) for mine in np.split(np.array(shuffled, object), ends)],
    }
    passes = max(1, round(rounds * COHORT / len(names)))
    pooled = [federation.federated(federation.parts(1), passes, RATES[0], seed) for seed in seeds]
    found = []
    for name, mine in parts.items():
        curves = [federation.federated(mine, rounds, RATES[0], seed, COHORT) for seed in seeds]
        made = row(
            request,
            f"Shakespeare, {name}",
            [curve[-1][1] for curve in curves],
            seeds=seeds,
            pooled=fmean(curve[-1][1] for curve in pooled),
            measure="perplexity",
            figures={"roles": float(len(names)), "words to train on": float(sum(part.targets for part in mine))},
            curves={name: curves[0]},
            axes=("round", "perplexity"),
        )
        found.append(made)
    return found


main = page_command("shakespeare", run)
if __name__ == "__main__":
    main()
