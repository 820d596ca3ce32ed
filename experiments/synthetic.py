"""Synthetic(alpha, beta): how much FedAvg loses as clients differ more, and what FedProx gets back.

Logistic regression on 30 clients (:func:`nightjar.experiments.data_sets.synthetic`), 10 a round, 10 passes each, so
that clients drift. Sources: the book's 2.4.1; Li et al. 2020, "Federated Optimization in Heterogeneous Networks",
figure 2.
"""

from __future__ import annotations

from nightjar.experiments.comparing import Study, study
from nightjar.experiments.engine import (
    ClientPlan,
    Federation,
    Played,
    alike_federation,
    averaging,
    play,
    synthetic_federation,
)
from nightjar.experiments.frame import Request, ResultRow, page_command

PLAN = ClientPlan(rate=0.02, batch=20, epochs=10)


def method(proximal: float) -> Study:
    """FedAvg, or FedProx with mu."""

    def played(federation: Federation, seed: int, rounds: int) -> Played:
        return play(federation, averaging(federation, PLAN, mu=proximal), seed, rounds, 10, every=2)

    return played


def run(request: Request) -> list[ResultRow]:
    """A row for each alpha and beta, and one for clients that do not differ."""
    methods = {"FedAvg": method(0.0), "FedProx": method(0.1)}
    rows = [
        study(
            request,
            "FedAvg, Synthetic(1, 1) dealt at random",
            methods,
            PLAN,
            rounds=(2, 40, 200),
            federation=alike_federation,
        )
    ]
    for alpha in (0.0, 0.5, 1.0):

        def world(seed: int, alpha: float = alpha) -> Federation:
            return synthetic_federation(seed, alpha, alpha)

        name = f"FedAvg, Synthetic({alpha:g}, {alpha:g})"
        rows.append(study(request, name, methods, PLAN, rounds=(2, 40, 200), federation=world))
    return rows


main = page_command("synthetic", run)
if __name__ == "__main__":
    main()
