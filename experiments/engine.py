"""Federated training of small networks on arrays in one process: what the pages share.

A page's algorithm is a function ``advance(number, weights, chosen, rng) -> (weights, cost)``; :func:`play` calls it
round by round and measures. The cost, in rounds, seconds or bytes, is the x of the curve. The laboratory
(:mod:`nightjar.simulation.laboratory`) trains the product's keyboard model; this trains what the source documents
train.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from nightjar.coordinator.learning.strategies import StrategyChoice, StrategyName, optimizer_for
from nightjar.experiments.data_sets import Examples, iid, joined, synthetic
from nightjar.experiments.networks import Classifier, dense
from nightjar.wire.parameters import Vector

Chosen = Sequence[int]
Advance = Callable[[int, Vector, Chosen, np.random.Generator], tuple[Vector, float]]
Points = list[tuple[float, float]]
Adjust = Callable[[Vector, Vector], Vector]
FEDAVG = StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0)


@dataclass(frozen=True, slots=True)
class Federation:
    """A network and the clients that train it.

    Attributes:
        network: the network.
        clients: examples of each client.
        test: examples that measure the shared model.
        tests: each client's own test examples; empty where a page needs none.
    """

    network: Classifier
    clients: Sequence[Examples]
    test: Examples
    tests: Sequence[Examples] = ()

    @property
    def pooled(self) -> Examples:
        """The examples of all clients."""
        return joined(self.clients)


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """What a client does in a round: ``steps`` steps of SGD, or ``epochs`` passes where steps is 0.

    Attributes:
        rate: learning rate.
        batch: examples a step; the last batch of a pass may be smaller.
        epochs: passes over the client's examples.
        steps: steps, with a new order of the examples after each pass.
    """

    rate: float
    batch: int
    epochs: int = 1
    steps: int = 0

    def count(self, examples: int) -> int:
        """Steps of a client with so many examples."""
        return self.steps or self.epochs * -(-examples // self.batch)


@functools.cache
def synthetic_federation(seed: int, alpha: float = 1.0, beta: float = 1.0, clients: int = 30) -> Federation:
    """Logistic regression on Synthetic(alpha, beta); a fifth of each client's examples are its test."""
    rng = np.random.default_rng([seed, 1])
    trains, tests = [], []
    for each in synthetic(alpha, beta, clients, rng):
        cut = len(each) * 4 // 5
        trains.append(each.at(np.arange(cut)))
        tests.append(each.at(np.arange(cut, len(each))))
    return Federation(dense(trains[0].x.shape[1], 10), trains, joined(tests), tests)


@functools.cache
def alike_federation(seed: int) -> Federation:
    """The same examples dealt at random: clients that do not differ."""
    differing = synthetic_federation(seed)
    whole = differing.pooled
    parts = iid(len(whole), len(differing.clients), np.random.default_rng([seed, 6]))
    return Federation(differing.network, [whole.at(part) for part in parts], differing.test)


WORLDS = {"clients that differ": synthetic_federation, "clients alike": alike_federation}
"""Name -> seed -> federation."""


def descend(
    network: Classifier,
    start: Vector,
    examples: Examples,
    plan: ClientPlan,
    rng: np.random.Generator,
    adjust: Adjust | None = None,
) -> Vector:
    """A client's weights after its plan, (n,) float32.

    Args:
        network: the network.
        start: (n,) float32.
        examples: the client's.
        plan: what it does.
        rng: orders the examples.
        adjust: (gradient, weights) -> the direction that is descended in place of the gradient.
    """
    order = batches(len(examples), plan, rng)
    if adjust is None and network.descent is not None and len({len(batch) for batch in order}) == 1:
        return network.descent(start, examples.x, examples.y, np.stack(order), plan.rate)
    weights = start.copy()
    for batch in order:
        _, gradient = network.gradient(weights, examples.x[batch], examples.y[batch])
        if adjust is not None:
            gradient = adjust(gradient, weights)
        weights -= np.float32(plan.rate) * gradient
    return weights


def descend_each(
    network: Classifier,
    start: Vector,
    clients: Sequence[Examples],
    plan: ClientPlan,
    rng: np.random.Generator,
    adjust: Adjust | None = None,
) -> Sequence[Vector]:
    """The weights of several clients after their plan, at once where the network can; else :func:`descend` of each."""
    even = len({len(each) for each in clients}) == 1 and len(clients[0]) % plan.batch == 0
    if network.descents is None or adjust is not None or not even:
        return [descend(network, start, each, plan, rng, adjust) for each in clients]
    order = np.stack([np.stack(batches(len(each), plan, rng)) for each in clients])
    return network.descents(start, clients, order, plan.rate)


def gradient_each(network: Classifier, weights: Vector, batches: Iterable[Examples]) -> Sequence[Vector]:
    """The gradients of clients' batches, which have as many examples each; at once where the network can."""
    if network.gradients is not None:
        return network.gradients(weights, list(batches))
    return [network.gradient(weights, each.x, each.y)[1] for each in batches]


def batches(size: int, plan: ClientPlan, rng: np.random.Generator) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The indices of each step's examples."""
    found: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    while len(found) < plan.count(size):
        order = rng.permutation(size)
        found += [order[cut : cut + plan.batch] for cut in range(0, size, plan.batch)]
    return found[: plan.count(size)]


def weighted_mean(vectors: Sequence[Vector], shares: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Mean by shares, which need not add to 1, in float64."""
    total = np.zeros(vectors[0].size)
    for vector, share in zip(vectors, shares, strict=True):
        total += share * vector.astype(np.float64)
    return total / sum(shares)


def sizes(federation: Federation, chosen: Chosen) -> list[float]:
    """Examples of the chosen clients: n_k of FedAvg."""
    return [float(len(federation.clients[each])) for each in chosen]


def proximal(mu: float, start: Vector) -> Adjust | None:
    """FedProx's pull to where a client began; None where mu is 0."""

    def near(gradient: Vector, now: Vector) -> Vector:
        return gradient + np.float32(mu) * (now - start)

    return near if mu else None


def averaging(federation: Federation, plan: ClientPlan, choice: StrategyChoice = FEDAVG, mu: float = 0.0) -> Advance:
    """FedAvg and the product's other strategies; the cost is a round."""
    optimizer = optimizer_for(choice)
    state = optimizer.init(federation.network.size)

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal state
        mine = [federation.clients[each] for each in chosen]
        trained = descend_each(federation.network, weights, mine, plan, rng, proximal(mu, weights))
        deltas = [each - weights for each in trained]
        weights, state = optimizer.apply(weights, weighted_mean(deltas, sizes(federation, chosen)), state)
        return weights, 1.0

    return advance


def priced(inner: Advance, cost: Callable[[Chosen], float]) -> Advance:
    """The same rounds at another cost, which depends on the chosen clients."""

    def advance(number: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        return inner(number, weights, chosen, rng)[0], cost(chosen)

    return advance


@dataclass(frozen=True, slots=True)
class Played:
    """How a training went.

    Attributes:
        points: (cost so far, accuracy) of the start and of each measurement.
        weights: the last.
    """

    points: Points
    weights: Vector

    @property
    def last(self) -> float:
        """Mean of the last three measurements: one round's accuracy swings."""
        return fmean(y for _, y in self.points[-3:])


def play(
    federation: Federation,
    advance: Advance,
    seed: int,
    rounds: int,
    cohort: int,
    *,
    every: int = 1,
    select: Callable[[int, np.random.Generator], Chosen] | None = None,
    measure: Callable[[Vector], float] | None = None,
    until: float = 2.0,
    cost: float = np.inf,
) -> Played:
    """Train round by round.

    Args:
        federation: who trains what.
        advance: the algorithm.
        seed: of weights, cohorts and orders.
        rounds: at most so many.
        cohort: clients a round, drawn uniformly.
        every: rounds between measurements.
        select: (round, rng) -> the clients, in place of the uniform draw.
        measure: weights -> accuracy, in place of that on the test examples.
        until: accuracy at which to stop.
        cost: cost at which to stop.
    """
    starting, drawing, ordering = (np.random.default_rng([seed, stream]) for stream in (2, 3, 4))
    weights, spent = federation.network.start(starting), 0.0
    accuracy = measure or (lambda now: federation.network.correct(now, federation.test))
    points = [(0.0, accuracy(weights))]
    for number in range(rounds):
        if select is None:
            chosen: Chosen = drawing.choice(len(federation.clients), cohort, replace=False).tolist()
        else:
            chosen = select(number, drawing)
        weights, paid = advance(number, weights, chosen, ordering)
        spent += paid
        if (number + 1) % every == 0 or number + 1 == rounds or spent >= cost:
            points.append((spent, accuracy(weights)))
            if points[-1][1] >= until or spent >= cost:
                break
    return Played(points, weights)


def pooled_accuracy(federation: Federation, plan: ClientPlan, seed: int, passes: int) -> float:
    """Accuracy after so many passes over everybody's examples in one place."""
    rng = np.random.default_rng([seed, 2])
    whole = ClientPlan(plan.rate, plan.batch, epochs=passes)
    weights = descend(federation.network, federation.network.start(rng), federation.pooled, whole, rng)
    return federation.network.correct(weights, federation.test)


def reached(points: Points, accuracy: float) -> float | None:
    """The cost at which an accuracy was first measured; None if it never was."""
    return next((x for x, y in points if y >= accuracy), None)


def paces(seed: int, clients: int) -> list[float]:
    """Seconds a step of each client: lognormal, median 0.1 s, a tenth above 0.3 s."""
    return [float(each) for each in 0.1 * np.random.default_rng([seed, 5]).lognormal(0, 0.85, clients)]
