"""FedCS: as many clients as a deadline allows, those first that delay the round least.

::

    clients train at the same time and send one after another:
    Theta' = max(Theta, compute_k) + send_k
    add the candidate of least Theta' while Theta' is within the deadline

Source: Nishio and Yonetani 2019, "Client Selection for Federated Learning with Heterogeneous Resources", algorithm 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nightjar.experiments.comparing import study
from nightjar.experiments.engine import Chosen, ClientPlan, Federation, Played, averaging, paces, play
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

SEND_S = 0.5
"""Median; lognormal like the speed of training."""
DEADLINE_S = 10.0
CANDIDATES = 20


def within(candidates: Sequence[int], compute: Sequence[float], send: Sequence[float], deadline_s: float) -> list[int]:
    """The clients of the round.

    >>> within([0, 1, 2], [1.0, 4.0, 9.0], [2.0, 1.0, 1.0], 6.0)  # 0 ends at 3, then 1 at 5, then 2 at 10
    [0, 1]

    Args:
        candidates: who is asked.
        compute: seconds of training of each client.
        send: seconds of sending of each.
        deadline_s: of the round.
    """
    chosen: list[int] = []
    spent, left = 0.0, list(candidates)
    while left:
        ends = {each: max(spent, compute[each]) + send[each] for each in left}
        best = min(left, key=ends.__getitem__)
        if ends[best] > deadline_s:
            break
        spent = ends[best]
        chosen.append(best)
        left.remove(best)
    return chosen


def finished(chosen: Chosen, compute: Sequence[float], send: Sequence[float]) -> float:
    """When the last of the chosen has sent, in the order in which they end training.

    >>> finished([1, 0], [1.0, 4.0], [2.0, 1.0])
    5.0
    """
    spent = 0.0
    for each in sorted(chosen, key=lambda at: compute[at]):
        spent = max(spent, compute[each]) + send[each]
    return spent


def run(request: Request) -> list[ResultRow]:
    """FedCS beside a uniform draw that waits for everybody, in equally many simulated seconds."""
    plan = ClientPlan(rate=0.02, batch=20)
    horizon_s = request.pick(50.0, 2000.0, 6000.0)

    def method(*, fedcs: bool) -> Callable[[Federation, int, int], Played]:
        def played(federation: Federation, seed: int, rounds: int) -> Played:
            clients = federation.clients
            compute = [
                pace * plan.count(len(each)) for pace, each in zip(paces(seed, len(clients)), clients, strict=True)
            ]
            send = [10 * SEND_S * pace for pace in paces(seed + 1000, len(clients))]
            inner = averaging(federation, plan)

            def select(_: int, rng: np.random.Generator) -> Chosen:
                asked = rng.choice(len(clients), CANDIDATES if fedcs else 6, replace=False).tolist()
                return within(asked, compute, send, DEADLINE_S) if fedcs else asked

            def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
                if not chosen:
                    return weights, DEADLINE_S
                return inner(number, weights, chosen, rng)[0], finished(chosen, compute, send)

            return play(federation, advance, seed, rounds, 6, every=2, select=select, cost=horizon_s)

        return played

    methods = {"FedCS": method(fedcs=True), "uniform": method(fedcs=False)}
    return [study(request, "FedCS", methods, plan, rounds=(10, 600, 1800), cost="second")]


main = page_command("catalogue.fedcs", run)
if __name__ == "__main__":
    main()
