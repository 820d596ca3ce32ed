"""Oort: prefers clients whose loss is high and who are fast.

::

    U(i) = n_i sqrt(mean of squared losses) (T / t_i)^(alpha if t_i > T)  + sqrt(0.1 log r / last round of i)
    a share epsilon of the cohort is drawn from clients that never took part; epsilon falls to 0.2

The others are drawn with probabilities proportional to U from those within 95 % of the cut-off utility. T is the 30th
percentile of the round times; the paper's pacer, which lets T grow, is left out. U is of the client's last report:
refused where devices appear once.

Source: Lai et al. 2021, "Oort: Efficient Federated Learning via Guided Participant Selection", algorithm 1, equation 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nightjar.experiments.catalogue.selecting import Learned, beside_uniform, round_times
from nightjar.experiments.engine import Chosen, ClientPlan, Federation
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

PENALTY = 2.0
"""Alpha."""
CUT_OFF = 0.95


def utility(statistical: float, seconds: float, preferred_s: float, number: int, last: int) -> float:
    """U of a client.

    >>> utility(8.0, seconds=20.0, preferred_s=10.0, number=1, last=1)  # log 1 = 0; (10 / 20)^2
    2.0

    Args:
        statistical: n_i times the root mean square of its loss.
        seconds: t_i.
        preferred_s: T.
        number: r, from 1.
        last: the round in which it last took part.
    """
    slow = (preferred_s / seconds) ** PENALTY if seconds > preferred_s else 1.0
    return (statistical + math.sqrt(0.1 * math.log(number) / last)) * slow


def statistical(federation: Federation, weights: Vector, client: int) -> float:
    """n_i times the root mean square of the losses of a client's examples."""
    mine = federation.clients[client]
    scores = federation.network.scores(weights, mine.x)
    of_label = scores[np.arange(len(mine)), mine.y]
    losses = np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1)) + scores.max(1) - of_label
    return float(len(mine) * np.sqrt((losses**2).mean()))


def choose(
    utilities: Mapping[int, float], new: Sequence[int], count: int, share: float, rng: np.random.Generator
) -> list[int]:
    """A cohort: a share of new clients, the rest by utility."""
    explored = min(len(new), max(round(count * share), count - len(utilities)))
    exploited = min(count - explored, len(utilities))
    chosen = rng.choice(new, explored, replace=False).tolist() if explored else []
    if exploited:
        ordered = sorted(utilities.values(), reverse=True)
        pool = [each for each, value in utilities.items() if value >= CUT_OFF * ordered[exploited - 1]]
        chances = np.array([utilities[each] for each in pool])
        chosen += rng.choice(pool, exploited, replace=False, p=chances / chances.sum()).tolist()
    return chosen


def oort(
    federation: Federation, plan: ClientPlan, seed: int, cohort: int
) -> tuple[Callable[[int, np.random.Generator], Chosen], Learned]:
    """The selection, and what it learns from each round."""
    times = round_times(federation, plan, seed)
    preferred_s = float(np.percentile(times, 30))
    losses: dict[int, float] = {}
    last: dict[int, int] = {}
    number = 1

    def select(at: int, rng: np.random.Generator) -> Chosen:
        nonlocal number
        number = at + 1
        known = {each: utility(losses[each], times[each], preferred_s, number, last[each]) for each in losses}
        new = [each for each in range(len(federation.clients)) if each not in losses]
        return choose(known, new, cohort, max(0.2, 0.9 * 0.98**at), rng)

    def learned(chosen: Chosen, weights: Vector) -> None:
        for each in chosen:
            losses[each], last[each] = statistical(federation, weights, each), number

    return select, learned


def run(request: Request) -> list[ResultRow]:
    """Oort beside a uniform draw, in equally many simulated seconds."""
    return [
        beside_uniform(request, "Oort", lambda federation, plan, seed, cohort, _: oort(federation, plan, seed, cohort))
    ]


main = page_command("catalogue.oort", run)
if __name__ == "__main__":
    main()
