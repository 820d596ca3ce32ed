"""AdaComm: many local steps at first, fewer as the loss falls.

::

    tau_l = ceil(sqrt(F(x at l T0) / F(x at 0)) tau_0)        every T0 seconds, at a fixed learning rate

Many steps amortise the delay D of sending; few leave a lower floor of the error.

Source: Wang and Joshi 2019, "Adaptive Communication Strategies to Achieve the Best Error-Runtime Trade-off in
Local-Update SGD", equation 18 (the book's 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nightjar.experiments.comparing import Study, study
from nightjar.experiments.engine import Advance, Chosen, ClientPlan, Federation, Played, averaging, paces, play
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

DELAY_S = 10.0
FIRST = 40
"""tau_0."""
PERIOD_S = 500.0
"""T0."""
Steps = Callable[[float, Vector], int]
"""(seconds so far, weights) -> tau."""


def adaptive_steps(loss: float, first_loss: float, first: int) -> int:
    """tau_l.

    >>> adaptive_steps(2.0, 2.0, 40), adaptive_steps(0.5, 2.0, 40), adaptive_steps(0.0, 2.0, 40)
    (40, 20, 1)
    """
    return max(1, math.ceil(math.sqrt(loss / first_loss) * first))


def adacomm(federation: Federation) -> Steps:
    """The number of steps by seconds: the loss of all clients' examples is asked for once every T0."""
    pooled = federation.pooled
    first_loss, steps, due_s = 0.0, FIRST, 0.0

    def at(now_s: float, weights: Vector) -> int:
        nonlocal first_loss, steps, due_s
        if now_s >= due_s:
            loss = federation.network.loss(weights, pooled)
            first_loss = first_loss or loss
            steps, due_s = adaptive_steps(loss, first_loss, FIRST), due_s + PERIOD_S
        return steps

    return at


def timed(federation: Federation, rate: float, slowest_s: float, steps_at: Steps) -> Advance:
    """FedAvg with so many steps a round; the cost is seconds."""
    now_s = 0.0

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal now_s
        steps = steps_at(now_s, weights)
        weights, _ = averaging(federation, ClientPlan(rate, 20, steps=steps))(number, weights, chosen, rng)
        spent_s = steps * slowest_s + DELAY_S
        now_s += spent_s
        return weights, spent_s

    return advance


def run(request: Request) -> list[ResultRow]:
    """AdaComm beside fixed numbers of steps, in equally many simulated seconds."""
    rate = 0.02
    horizon_s = request.pick(200.0, 4000.0, 12000.0)

    def method(steps_of: Callable[[Federation], Steps]) -> Study:
        def played(federation: Federation, seed: int, rounds: int) -> Played:
            slowest_s = max(paces(seed, len(federation.clients)))
            advance = timed(federation, rate, slowest_s, steps_of(federation))
            every = request.pick(1, 2, 5)
            return play(federation, advance, seed, rounds, len(federation.clients), every=every, cost=horizon_s)

        return played

    methods = {
        "AdaComm": method(adacomm),
        f"{FIRST} steps": method(lambda _: lambda _now, _weights: FIRST),
        "1 step": method(lambda _: lambda _now, _weights: 1),
    }
    rounds = (10, 1000, 3000)
    return [study(request, "AdaComm", methods, ClientPlan(rate, 20), rounds=rounds, cost="second")]


main = page_command("catalogue.adacomm", run)
if __name__ == "__main__":
    main()
