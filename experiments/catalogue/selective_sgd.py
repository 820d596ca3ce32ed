"""Selective SGD: clients take turns; each sends only the share theta of its changes that moved most.

::

    in turn:  w <- the shared weights;  one pass of SGD;  send the theta n largest of w - start;  the server adds them

Refused with masks: each client chooses coordinates of its own.

Source: Shokri and Shmatikov 2015, "Privacy-Preserving Deep Learning", figure 4, round robin, all weights downloaded.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.catalogue.compressing import VALUE_BYTES, kept_of, largest
from nightjar.experiments.comparing import Study, study
from nightjar.experiments.engine import Advance, Chosen, ClientPlan, Federation, Played, descend, play
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector


def selected(delta: Vector, theta: float) -> Vector:
    """The share theta of largest magnitude; elsewhere 0.

    >>> selected(np.array([1.0, -4.0, 2.0], np.float32), 0.4).tolist()  # ceil(1.2) of 3
    [0.0, -4.0, 2.0]
    """
    return np.where(largest(delta, kept_of(delta.size, theta)), delta, np.float32(0))


def selective(federation: Federation, plan: ClientPlan, theta: float) -> Advance:
    """A turn of one client; the cost is the bytes that it sends."""

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        (turn,) = chosen
        delta = descend(federation.network, weights, federation.clients[turn], plan, rng) - weights
        return weights + selected(delta, theta), float(VALUE_BYTES * kept_of(delta.size, theta))

    return advance


def run(request: Request) -> list[ResultRow]:
    """A tenth of the changes beside all of them, by bytes, with clients in turn."""
    plan = ClientPlan(rate=0.02, batch=20)

    def method(theta: float) -> Study:
        def played(federation: Federation, seed: int, rounds: int) -> Played:
            clients = len(federation.clients)
            advance = selective(federation, plan, theta)
            return play(federation, advance, seed, rounds, 1, every=20, select=lambda number, _: [number % clients])

        return played

    methods = {"theta 0.1": method(0.1), "theta 1": method(1.0)}
    return [study(request, "Selective SGD, theta 0.1", methods, plan, rounds=(30, 1500, 3000), cost="byte")]


main = page_command("catalogue.selective_sgd", run)
if __name__ == "__main__":
    main()
