"""Populations whose people differ in one of five ways, and a measure of each (Kairouz et al. 2019, section 3.1).

A person i is drawn, and then its examples (x, y) from P_i. Half of the inputs matter for the label, half do not::

    features    P_i(x)      the inputs that do not matter are shifted for each person
    labels      P_i(y)      shares of classes from a Dirichlet distribution
    looks       P_i(x | y)  each class is shifted for each person, all of its classes by 0 on average
    meanings    P_i(y | x)  each person swaps the names of two classes
    quantity    n_i         numbers of examples are log-normal

Measures are 0 where people are alike, up to chance, and grow with their own skew: shares of variance between people,
distance of label shares, disagreement of neighbours, and Gini's coefficient. By Bayes' rule one skew can bring another:
shifted features look different in each class, too.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nightjar.experiments.data_sets import Examples

Wide = npt.NDArray[np.float64]
CLASSES, RELEVANT, IRRELEVANT = 4, 5, 5
DISTANCE = 1.6
"""Length of a class's mean, in deviations of the inputs."""


class Skew(enum.Enum):
    """In what people differ."""

    NONE = "none"
    FEATURES = "features"
    LABELS = "labels"
    LOOKS = "looks"
    MEANINGS = "meanings"
    QUANTITY = "quantity"


class Population(NamedTuple):
    """People's examples to train on, and others of theirs to test on."""

    train: list[Examples]
    test: list[Examples]


def population(skew: Skew, people: int, examples: int, seed: int) -> Population:
    """Draw people.

    Args:
        skew: in what they differ.
        people: how many.
        examples: of each to train on, on average; as many to test on, for everybody.
        seed: of all draws; the classes are the same for all skews.
    """
    means = class_means(seed)
    rng = np.random.default_rng([seed, list(Skew).index(skew)])
    counts = np.full(people, examples)
    if skew is Skew.QUANTITY:
        counts = np.maximum(4, (examples * rng.lognormal(-0.9, 1.35, people))).astype(int)
    train: list[Examples] = []
    test: list[Examples] = []
    for count in counts.tolist():
        shares = rng.dirichlet(np.full(CLASSES, 0.3)) if skew is Skew.LABELS else np.full(CLASSES, 1 / CLASSES)
        shift = np.zeros((CLASSES, RELEVANT + IRRELEVANT))
        if skew is Skew.FEATURES:
            shift[:, RELEVANT:] = rng.normal(0, 1.5, IRRELEVANT)
        if skew is Skew.LOOKS:
            shift[:, RELEVANT:] = rng.normal(0, 1.5, (CLASSES, IRRELEVANT))
            shift -= shift.mean(axis=0)
        names = np.arange(CLASSES)
        if skew is Skew.MEANINGS:
            a, b = rng.choice(CLASSES, 2, replace=False)
            names[[a, b]] = names[[b, a]]
        for part, size in ((train, count), (test, examples)):
            y = rng.choice(CLASSES, size, p=shares)
            x = means[y] + shift[y] + rng.normal(size=(size, RELEVANT + IRRELEVANT))
            part.append(Examples(x.astype(np.float32), names[y]))
    return Population(train, test)


def class_means(seed: int) -> Wide:
    """Means (classes, inputs) of the classes."""
    means = np.zeros((CLASSES, RELEVANT + IRRELEVANT))
    drawn = np.random.default_rng(seed).normal(size=(CLASSES, RELEVANT))
    means[:, :RELEVANT] = DISTANCE * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return means


def measured(people: list[Examples]) -> dict[Skew, float]:
    """Each measure of a population; what chance alone gives is taken off.

    >>> alike = measured(population(Skew.NONE, 10, 40, 1).train)
    >>> max(alike.values()) < 0.1
    True
    """
    owner = np.repeat(np.arange(len(people)), [len(each.y) for each in people])
    x = np.concatenate([each.x for each in people]).astype(np.float64)
    y = np.concatenate([each.y for each in people])
    typical = x - _means(x, y)  # without what a class has in common
    return {
        Skew.FEATURES: _between(typical, owner),
        Skew.LABELS: _label_distance(y, owner),
        Skew.LOOKS: _between(typical - _means(typical, owner), owner * CLASSES + y),
        Skew.MEANINGS: _disagreement(x, y, owner),
        Skew.QUANTITY: gini(np.array([len(each.y) for each in people], np.float64)),
    }


def _means(x: Wide, group: npt.NDArray[np.int64]) -> Wide:
    """The mean (n, inputs) of each row's group."""
    _, numbers, counts = np.unique(group, return_inverse=True, return_counts=True)
    totals = np.zeros((len(counts), x.shape[1]))
    np.add.at(totals, numbers, x)
    return np.asarray((totals / counts[:, None])[numbers])


def _between(x: Wide, group: npt.NDArray[np.int64]) -> float:
    """Share of the variance between groups, omega squared: 0 for groups that are alike."""
    inside = ((x - _means(x, group)) ** 2).sum()
    total = ((x - x.mean(axis=0)) ** 2).sum()
    groups = len(np.unique(group))
    noise = inside / (len(x) - groups)
    return float(max(0.0, (total - inside - (groups - 1) * noise) / (total + noise)))


def _label_distance(y: npt.NDArray[np.int64], owner: npt.NDArray[np.int64]) -> float:
    """Mean total variation between a person's shares of labels and everybody's, beyond that of shuffled labels."""

    def distance(labels: npt.NDArray[np.int64]) -> float:
        counts = np.zeros((owner.max() + 1, CLASSES))
        np.add.at(counts, (owner, labels), 1)
        shares = counts / counts.sum(axis=1, keepdims=True)
        return float(np.abs(shares - shares.mean(axis=0)).sum(axis=1).mean() / 2)

    return max(0.0, distance(y) - distance(np.random.default_rng(0).permutation(y)))


def _disagreement(x: Wide, y: npt.NDArray[np.int64], owner: npt.NDArray[np.int64]) -> float:
    """How much better the label of the nearest example of one's own agrees than that of another person's nearest.

    Agreement is Cohen's kappa, so that it is 0 for labels by chance even where some are frequent. Only inputs that
    matter for everybody count: people far apart in others are no evidence about labels.
    """
    x = x[:, :RELEVANT]
    squares = (x**2).sum(axis=1)
    d = squares[:, None] + squares - 2 * x @ x.T
    np.fill_diagonal(d, np.inf)
    people = [np.flatnonzero(owner == person) for person in range(owner.max() + 1)]
    kappas: list[list[float]] = [[], []]
    for person, rows in enumerate(people):
        for side, among in enumerate((rows, people[(person + 1) % len(people)])):
            nearest = among[d[np.ix_(rows, among)].argmin(axis=1)]
            shares = [np.bincount(y[each], minlength=CLASSES) / len(each) for each in (rows, among)]
            chance = float(shares[0] @ shares[1])
            if chance < 1:
                kappas[side].append(((y[rows] == y[nearest]).mean() - chance) / (1 - chance))
    return max(0.0, float(np.mean(kappas[0])) - float(np.mean(kappas[1])))


def gini(sizes: Wide) -> float:
    """0 if all are equal, towards 1 if one has all.

    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 0.0, 0.0, 1.0]))
    (0.0, 0.75)
    """
    ordered = np.sort(sizes)
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * (ranks * ordered).sum() / ordered.sum() - len(ordered) - 1) / len(ordered))
