"""Overlap local SGD: clients go on from an anchor while their models are on the way, so that sending costs no time.

::

    x_i <- x_i - alpha (x_i - z)      z: the anchor of one exchange ago, which has arrived meanwhile
    v   <- beta v + (mean x_i - z);   z <- z + v       on the way during the next tau steps

A round takes max(tau Y, D) instead of tau Y + D: Y seconds a step of the slowest client, D seconds of sending. Refused
where devices appear once: each keeps a model.

Source: Wang, Liang and Joshi 2020, "Overlap Local-SGD", equations 3 to 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nightjar.experiments.comparing import study
from nightjar.experiments.engine import (
    WORLDS,
    Advance,
    Chosen,
    ClientPlan,
    Federation,
    Played,
    averaging,
    descend,
    paces,
    play,
    priced,
)
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

DELAY_S = 10.0
MOMENTUM = 0.5
PULL = 0.6
"""Alpha of the paper's experiments."""


def pulled(models: Sequence[Vector], anchor: Vector, alpha: float) -> list[Vector]:
    """``x_i - alpha (x_i - z)``.

    >>> [each.tolist() for each in pulled([np.array([4.0]), np.array([-4.0])], np.array([2.0]), 0.5)]
    [[3.0], [-1.0]]
    """
    return [(model - alpha * (model - anchor)).astype(model.dtype) for model in models]


def round_seconds(steps: int, slowest_s: float, delay_s: float, *, overlap: bool) -> float:
    """Seconds of a round.

    >>> round_seconds(10, 0.5, 3.0, overlap=False), round_seconds(10, 0.5, 3.0, overlap=True)
    (8.0, 5.0)
    """
    return max(steps * slowest_s, delay_s) if overlap else steps * slowest_s + delay_s


def overlapped(federation: Federation, plan: ClientPlan, seed: int) -> Advance:
    """Rounds of overlap local SGD with all clients; the cost is seconds."""
    slowest_s = max(paces(seed, len(federation.clients)))
    models: list[Vector] = []
    velocity = np.zeros(federation.network.size, np.float32)

    def advance(_: int, anchor: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal models, velocity
        started = models or [anchor] * len(chosen)
        trained = [
            descend(federation.network, model, federation.clients[each], plan, rng)
            for model, each in zip(started, sorted(chosen), strict=True)
        ]
        models = pulled(trained, anchor, PULL)
        velocity = np.float32(MOMENTUM) * velocity + (np.mean(models, axis=0, dtype=np.float32) - anchor)
        return anchor + velocity, round_seconds(plan.steps, slowest_s, DELAY_S, overlap=True)

    return advance


def run(request: Request) -> list[ResultRow]:
    """Accuracy by simulated seconds, beside FedAvg that waits for what it sends."""
    plan = ClientPlan(rate=0.02, batch=20, steps=20)

    def ours(federation: Federation, seed: int, rounds: int) -> Played:
        return play(federation, overlapped(federation, plan, seed), seed, rounds, len(federation.clients), every=4)

    def fedavg(federation: Federation, seed: int, rounds: int) -> Played:
        second = round_seconds(plan.steps, max(paces(seed, len(federation.clients))), DELAY_S, overlap=False)
        advance = priced(averaging(federation, plan), lambda _: second)
        return play(federation, advance, seed, rounds, len(federation.clients), every=4)

    methods = {"overlap local SGD": ours, "FedAvg": fedavg}
    return [
        study(
            request,
            f"overlap local SGD, {world}",
            methods,
            plan,
            rounds=(4, 100, 300),
            cost="second",
            federation=federation,
        )
        for world, federation in WORLDS.items()
    ]


main = page_command("catalogue.overlap", run)
if __name__ == "__main__":
    main()
