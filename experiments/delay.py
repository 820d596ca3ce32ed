"""The book's delay model: seconds a step, ``E[max of m means of tau step times] + D / tau``, beside simulated rounds.

::

    F(t) = P(mean of tau exponential times <= t) = 1 - exp(-tau t / y) sum over k < tau of (tau t / y)^k / k!
    E[max of m] = integral of 1 - F(t)^m over t >= 0

More local steps share the delay D, and the slowest of m clients is less slow on average. What they cost is a higher
floor of the error: the curves are accuracy by simulated seconds. Source: the book's 3.2.1; Wang and Joshi 2019.
"""

from __future__ import annotations

import math

import numpy as np

from nightjar.experiments.engine import Chosen, ClientPlan, Federation, Played, averaging, play, synthetic_federation
from nightjar.experiments.frame import Request, ResultRow, page_command, row
from nightjar.wire.parameters import Vector

MEAN_S = 1.0
DELAY_S = 5.0
STEPS = (1, 5, 20)


def expected_slowest(clients: int, steps: int, mean_s: float) -> float:
    """E[max of m], seconds.

    >>> round(expected_slowest(3, 1, 1.0), 4)  # 1 + 1/2 + 1/3
    1.8333
    """
    t = np.linspace(0, 60 * mean_s, 200_001)
    rate = steps * t / mean_s
    term = np.exp(-rate)
    above = term.copy()
    for k in range(1, steps):
        term = term * rate / k
        above += term
    return float(np.trapezoid(1 - (1 - above) ** clients, t))


def seconds_a_step(clients: int, steps: int, mean_s: float, delay_s: float) -> float:
    """The model."""
    return expected_slowest(clients, steps, mean_s) + delay_s / steps


def timed(federation: Federation, plan: ClientPlan, seed: int, horizon_s: float) -> tuple[Played, float]:
    """FedAvg of all clients with exponential step times; also the mean seconds a step."""
    inner, times = averaging(federation, plan), np.random.default_rng([seed, 11])
    spent: list[float] = []

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        slowest_s = float(times.exponential(MEAN_S, (len(chosen), plan.steps)).sum(1).max())
        spent.append(slowest_s + DELAY_S)
        return inner(number, weights, chosen, rng)[0], spent[-1]

    everybody = len(federation.clients)
    every = max(1, math.ceil(20 / plan.steps))
    played = play(federation, advance, seed, 100_000, everybody, every=every, cost=horizon_s)
    return played, float(np.mean(spent)) / plan.steps


def run(request: Request) -> list[ResultRow]:
    """Seconds a step by the model and as simulated, and the error by simulated seconds."""
    horizon_s, seeds = request.pick((60.0, [1]), (2000.0, [1, 2, 3]), (8000.0, [1, 2, 3]))
    rows = []
    for steps in STEPS:
        plan = ClientPlan(rate=0.02, batch=20, steps=steps)
        played = [timed(synthetic_federation(seed), plan, seed, horizon_s) for seed in seeds]
        clients = len(synthetic_federation(seeds[0]).clients)
        model = seconds_a_step(clients, steps, MEAN_S, DELAY_S)
        figures = {"model": model, "accuracy": float(np.mean([each.last for each, _ in played]))}
        points = played[0][0].points
        made = row(
            request,
            f"delay model, {steps} local step{'s' * (steps > 1)}",
            [measured for _, measured in played],
            seeds=seeds,
            measure="seconds a step",
            figures=figures,
            curves={"FedAvg": points[:: max(1, len(points) // 100)]},
            axes=("second", "accuracy"),
        )
        rows.append(made)
    return rows


main = page_command("delay", run)
if __name__ == "__main__":
    main()
