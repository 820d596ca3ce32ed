"""What each of the five skews does to FedAvg, and which remedy helps; drift, and day and night.

Populations and measures are those of :mod:`nightjar.experiments.skews`, strategies those of the product
(:mod:`nightjar.coordinator.learning.strategies`). A person's own accuracy is on its own test examples; the mean over
people counts. Where the same inputs mean different labels, no one model can be right for all: only the personal one is.

Drift: the means of the classes turn by a little in each round. Day and night: people of two halves of the world, with
different labels, take part when the product's generated phones are free
(:mod:`nightjar.simulation.rounds.availability`), twelve hours apart; the model leans to those who are awake, and the
average of the last day's weights does so less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nightjar.coordinator.learning.strategies import StrategyChoice, StrategyName, last_average, optimizer_for
from nightjar.experiments import skews
from nightjar.experiments.data_sets import Examples, joined
from nightjar.experiments.engine import ClientPlan, descend, proximal, weighted_mean
from nightjar.experiments.frame import Request, ResultRow, averaged, page_command, row
from nightjar.experiments.networks import dense
from nightjar.experiments.skews import Population, Skew
from nightjar.simulation.rounds.availability import GeneratedAvailability
from nightjar.wire.parameters import Vector

INPUTS = skews.RELEVANT + skews.IRRELEVANT
NETWORK = dense(INPUTS, 16, skews.CLASSES)
COHORT, RATE, EPOCHS = 10, 0.1, 3
HOURS = 24


@dataclass(frozen=True, slots=True)
class Remedy:
    """How a round differs from FedAvg with weights by examples."""

    strategy: StrategyName = StrategyName.FEDAVG
    server_rate: float = 1.0
    pull: float = 0.0  # FedProx's
    most: float = np.inf  # largest weight of a device, in examples: limits what one person can contribute
    epochs: int = EPOCHS


REMEDIES = {
    "FedAvg": Remedy(),
    "one local epoch": Remedy(epochs=1),
    "FedProx": Remedy(pull=1.0),
    "FedAvgM": Remedy(StrategyName.FEDAVGM, 0.3),
    "FedAdam": Remedy(StrategyName.FEDADAM, 0.03),
    "weights capped": Remedy(most=20),
}
Choose = Callable[[int, np.random.Generator], Sequence[int]]
"""The cohort of a round."""
After = Callable[[int, Vector], None]


def federated(
    train_of: Callable[[int], Sequence[Examples]],
    choose: Choose,
    remedy: Remedy,
    rounds: int,
    seed: int,
    after: After = lambda _number, _weights: None,
) -> Vector:
    """Train a network of everybody; ``train_of`` has people's examples in a round."""
    rng = np.random.default_rng(seed)
    weights = NETWORK.start(rng)
    optimizer = optimizer_for(StrategyChoice(name=remedy.strategy, learning_rate=remedy.server_rate, adaptivity=1e-2))
    state = optimizer.init(weights.size)
    for number in range(rounds):
        people = train_of(number)
        cohort = [people[person] for person in choose(number, rng)]
        local = [trained(weights, own, rng, remedy.epochs, remedy.pull) for own in cohort]
        moved = weighted_mean(local, [min(len(own), remedy.most) for own in cohort]) - weights
        weights, state = optimizer.apply(weights, moved, state)
        after(number, weights)
    return weights


def trained(start: Vector, own: Examples, rng: np.random.Generator, epochs: int, pull: float = 0.0) -> Vector:
    """A device's weights after some epochs, with FedProx's pull to where they began."""
    return descend(NETWORK, start, own, ClientPlan(RATE, 16, epochs), rng, proximal(pull, start))


def of_people(weights: Vector, tests: Sequence[Examples]) -> float:
    """Mean over people of the accuracy on their own examples."""
    return float(np.mean([NETWORK.correct(weights, own) for own in tests]))


def personal(weights: Vector, people: Population, seed: int) -> float:
    """The same after each device went on training for its owner alone."""
    rng = np.random.default_rng(seed)
    own = [trained(weights, train, rng, 10) for train in people.train]
    return float(np.mean([NETWORK.correct(at, test) for at, test in zip(own, people.test, strict=True)]))


def _of_skew(request: Request, skew: Skew, seed: int) -> ResultRow:
    rounds = request.pick(3, 40, 200)
    people = skews.population(skew, request.pick(10, 40, 100), 40, seed)
    start = NETWORK.start(np.random.default_rng(seed))
    pooled = trained(start, joined(people.train), np.random.default_rng(seed), request.pick(1, 20, 40))
    figures = {} if skew is Skew.NONE else {"its measure": skews.measured(people.train)[skew]}
    for name, remedy in REMEDIES.items():
        weights = federated(lambda _: people.train, _uniform(len(people.train)), remedy, rounds, seed)
        figures[name] = of_people(weights, people.test)
        if name == "FedAvg":
            figures["FedAvg, then personal"] = personal(weights, people, seed)
    measured, beside = [figures.pop("FedAvg")], of_people(pooled, people.test)
    return row(request, f"FedAvg, skew: {skew.value}", measured, seeds=[seed], pooled=beside, figures=figures)


def _uniform(people: int) -> Choose:
    return lambda _number, rng: rng.choice(people, min(COHORT, people), replace=False).tolist()


def _drift(request: Request, seed: int) -> ResultRow:
    """The plane of the first two inputs turns, half a turn in all."""
    rounds = request.pick(4, 60, 240)
    people = skews.population(Skew.NONE, 40, 40, seed)

    def turned(examples: Sequence[Examples], number: int) -> list[Examples]:
        angle = np.pi * number / rounds
        turn = np.eye(INPUTS, dtype=np.float32)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return [Examples(own.x @ turn, own.y) for own in examples]

    lines: dict[str, list[tuple[float, float]]] = {"the model of now": [], "of the first quarter": []}
    old: list[Vector] = []

    def after(number: int, weights: Vector) -> None:
        if number + 1 == max(1, rounds // 4):
            old.append(weights)
        now = turned(people.test, number)
        lines["the model of now"].append((number, of_people(weights, now)))
        if old:
            lines["of the first quarter"].append((number, of_people(old[0], now)))

    federated(lambda number: turned(people.train, number), _uniform(40), Remedy(), rounds, seed, after)
    now, old_one = (points[-1][1] for points in lines.values())
    others = {"model of the first quarter, at the end": old_one}
    return row(request, "FedAvg under drift, the model of now", [now], seeds=[seed], figures=others, curves=lines)


def _day_and_night(request: Request, seed: int) -> ResultRow:
    days = request.pick(1, 4, 10)
    people = skews.population(Skew.NONE, 60, 40, seed)
    # The west mostly has the labels of the first two classes, the east of the others
    train, test = ([_mostly(own, place) for place, own in enumerate(part)] for part in people)
    free = GeneratedAvailability(seed)

    def choose(number: int, rng: np.random.Generator) -> Sequence[int]:
        # An hour has thirty minutes of rounds; the east's midnight is twelve hours later
        moment = [(number + 12 * (person % 2)) * 3600.0 for person in range(60)]
        windows = [free.next_window(person, at) for person, at in enumerate(moment)]
        awake = [person for person, window in enumerate(windows) if window[0] <= moment[person] + 1800]
        east.append(float(np.mean([float(person % 2) for person in awake] or [0.5])))
        cohort: list[int] = rng.permutation(awake or range(60))[:COHORT].tolist()
        return cohort

    east: list[float] = []
    lines: dict[str, list[tuple[float, float]]] = {"last weights, east": [], "average of a day, east": []}
    average = np.zeros(0)

    def after(number: int, weights: Vector) -> None:
        nonlocal average
        average = last_average(average if number else np.zeros(weights.size), weights, number + 1, HOURS)
        for name, at in zip(lines, (weights, average.astype(np.float32)), strict=True):
            lines[name].append((number, of_people(at, test[1::2])))

    federated(lambda _: train, choose, Remedy(), days * HOURS, seed, after)
    second_half = {name: [y for x, y in points if x >= days * HOURS / 2] for name, points in lines.items()}
    figures = {f"swing of {name}": float(np.ptp(values)) for name, values in second_half.items()}
    means = {name: float(np.mean(values)) for name, values in second_half.items()}
    measured = means.pop("last weights, east")
    figures |= {"least share of the east in an hour": min(east), "most": max(east), **means}
    name, axes = "FedAvg by day and night, people of the east", ("hour", "accuracy")
    return row(request, name, [measured], seeds=[seed], figures=figures, curves=lines, axes=axes)


def _mostly(own: Examples, place: int) -> Examples:
    kept = (own.y // 2 == place % 2) | (np.arange(len(own.y)) % 5 == 0)
    return Examples(own.x[kept], own.y[kept])


def run(request: Request) -> list[ResultRow]:
    """Five skews with their measures and remedies, drift, and day and night."""
    return averaged(
        [*(_of_skew(request, skew, seed) for skew in Skew), _drift(request, seed), _day_and_night(request, seed)]
        for seed in request.pick((1,), (1, 2, 3), (1, 2, 3))
    )


main = page_command("skew_study", run)
if __name__ == "__main__":
    main()
