"""What the pages on personalisation share: a method, and accuracy of each client's own model on its own test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from nightjar.experiments.comparing import Study, study
from nightjar.experiments.engine import (
    WORLDS,
    Advance,
    Chosen,
    ClientPlan,
    Federation,
    Played,
    averaging,
    descend,
    play,
)
from nightjar.experiments.frame import Request, ResultRow
from nightjar.wire.parameters import Vector

Accuracies = Callable[[Vector], list[float]]
"""Shared weights -> accuracy of each client's model on the client's test."""


@dataclass(frozen=True, slots=True)
class Personal:
    """A method of personalisation.

    Attributes:
        advance: its rounds.
        accuracies: what each client has of it.
    """

    advance: Advance
    accuracies: Accuracies


Personalise = Callable[[Federation, ClientPlan], Personal]


def accuracies(federation: Federation, models: Sequence[Vector]) -> list[float]:
    """Of each client's model on its own test."""
    return [federation.network.correct(model, test) for model, test in zip(models, federation.tests, strict=True)]


def shared_only(federation: Federation, plan: ClientPlan) -> Personal:
    """FedAvg: everybody has the shared model."""
    clients = len(federation.clients)
    return Personal(averaging(federation, plan), lambda weights: accuracies(federation, [weights] * clients))


def tuned(federation: Federation, weights: Vector, plan: ClientPlan) -> list[Vector]:
    """The shared model trained on by each client."""
    return [
        descend(federation.network, weights, mine, plan, np.random.default_rng([9, client]))
        for client, mine in enumerate(federation.clients)
    ]


def fine_tuned(federation: Federation, plan: ClientPlan) -> Personal:
    """FedAvg, then one plan more by each client."""
    return Personal(
        averaging(federation, plan), lambda weights: accuracies(federation, tuned(federation, weights, plan))
    )


def alone(federation: Federation, plan: ClientPlan) -> Personal:
    """Nothing is shared: in its rounds a client trains its own model on."""
    own: dict[int, Vector] = {}

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        for each in chosen:
            own[each] = descend(federation.network, own.get(each, weights), federation.clients[each], plan, rng)
        return weights, 1.0

    def each_accuracy(weights: Vector) -> list[float]:
        return accuracies(federation, [own.get(each, weights) for each in range(len(federation.clients))])

    return Personal(advance, each_accuracy)


def local_accuracies(federation: Federation, plan: ClientPlan, seed: int, passes: int) -> list[float]:
    """Of clients that train alone."""
    weights = federation.network.start(np.random.default_rng([seed, 2]))
    return accuracies(federation, tuned(federation, weights, ClientPlan(plan.rate, plan.batch, passes)))


def personal_study(
    request: Request, name: str, methods: Mapping[str, Personalise], plan: ClientPlan
) -> list[ResultRow]:
    """Methods beside FedAvg, fine-tuned FedAvg and training alone: mean accuracy of clients on their own tests."""

    def at(method: Personalise) -> Study:
        def played(federation: Federation, seed: int, rounds: int) -> Played:
            personal = method(federation, plan)

            def mean(weights: Vector) -> float:
                return fmean(personal.accuracies(weights))

            return play(federation, personal.advance, seed, rounds, 10, every=max(1, rounds // 10), measure=mean)

        return played

    beside: dict[str, Personalise] = {**methods, "fine-tuned FedAvg": fine_tuned, "FedAvg": shared_only, "alone": alone}
    studies = {method: at(run) for method, run in beside.items()}
    world = WORLDS["clients that differ"]
    return [study(request, name, studies, plan, rounds=(2, 100, 300), federation=world, central=False)]
