"""EASGD: clients keep models of their own, which an elastic force ties to a shared anchor.

::

    x_i <- x_i - alpha (x_i - a)            alpha = eta rho
    a   <- a + alpha sum (x_i - a)          with the x_i of before
    then tau local steps of each x_i

Stable where m alpha < 1. Every client takes part in every exchange: refused where devices appear once.

Source: Zhang, Choromanska and LeCun 2015, "Deep Learning with Elastic Averaging SGD", equations 5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nightjar.experiments.catalogue.overlap import DELAY_S, round_seconds
from nightjar.experiments.comparing import playing, study
from nightjar.experiments.engine import (
    WORLDS,
    Advance,
    Chosen,
    ClientPlan,
    Federation,
    averaging,
    descend,
    paces,
    priced,
)
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector


def exchange(models: Sequence[Vector], anchor: Vector, alpha: float) -> tuple[list[Vector], Vector]:
    """Clients and anchor after they pulled at each other.

    >>> models, anchor = exchange([np.array([4.0], np.float32), np.array([2.0], np.float32)], np.zeros(1), 0.25)
    >>> [each.tolist() for each in models], anchor.tolist()
    ([[3.0], [1.5]], [1.5])

    Args:
        models: x_i.
        anchor: a.
        alpha: eta rho.
    """
    pulls = [np.float32(alpha) * (model - anchor) for model in models]
    return [model - pull for model, pull in zip(models, pulls, strict=True)], anchor + np.sum(pulls, axis=0)


def easgd(federation: Federation, plan: ClientPlan, beta: float) -> Advance:
    """Rounds of EASGD with alpha = beta / m."""
    models: list[Vector] = []

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal models
        started = models or [weights] * len(chosen)
        trained = [
            descend(federation.network, model, federation.clients[each], plan, rng)
            for model, each in zip(started, sorted(chosen), strict=True)
        ]
        models, anchor = exchange(trained, weights, beta / len(chosen))
        return anchor.astype(np.float32), 1.0

    return advance


def run(request: Request) -> list[ResultRow]:
    """EASGD beside FedAvg, both with all clients, equally many steps, and rounds as long as overlap local SGD's."""
    plan = ClientPlan(rate=0.02, batch=20, steps=20)

    def second(chosen: Chosen) -> float:
        return round_seconds(plan.steps, max(paces(1, len(chosen))), DELAY_S, overlap=False)

    methods = {
        "EASGD": playing(lambda federation: priced(easgd(federation, plan, 0.9), second), cohort=None),
        "FedAvg": playing(lambda federation: priced(averaging(federation, plan), second), cohort=None),
    }
    return [
        study(
            request,
            f"EASGD, {world}",
            methods,
            plan,
            rounds=(4, 100, 300),
            federation=federation,
            cost="second",
        )
        for world, federation in WORLDS.items()
    ]


main = page_command("catalogue.easgd", run)
if __name__ == "__main__":
    main()
