"""Gradient-boosted trees from exact sums, wherever columns are: what :mod:`nightjar.experiments.secure_boost` encrypts.

XGBoost's trees (Chen and Guestrin 2016) with the logistic loss: the best split of a node has the largest
``G_L^2/(H_L+l) + G_R^2/(H_R+l) - G^2/(H+l)``, a leaf's value is ``-G/(H+l)``. Slopes are fixed point, so sums are
exact in any order, and parties that have only ciphertexts of them find the same trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nightjar.experiments.paillier import fixed

Matrix = npt.NDArray[np.float64]
Bins = npt.NDArray[np.uint8]
BITS = 32
"""Fixed point of g and h."""


@dataclass(frozen=True, slots=True)
class Boosting:
    """Settings of the trees.

    Attributes:
        trees: how many.
        depth: of each.
        rate: of learning.
        penalty: lambda, on leaves' values.
        least_hessian: in each side of a split.
        key_bits: of n; 2048 is the least that is secure, less is for tests.
    """

    trees: int = 3
    depth: int = 3
    rate: float = 0.3
    penalty: float = 1.0
    least_hessian: float = 1e-3
    key_bits: int = 2048


class Sums(NamedTuple):
    """Sums of g and h, in fixed point."""

    g: int
    h: int


class TreeSplit(NamedTuple):
    """Rows in bins up to ``bin`` of a party's column go left."""

    party: int
    column: int
    bin: int


class Node(NamedTuple):
    """A node of a tree; without a split it is a leaf.

    Attributes:
        rows: its rows.
        split: how it is split; its left and then its right subtree follow in the tree.
        value: the Newton step of its rows.
    """

    rows: list[int]
    split: TreeSplit | None
    value: float


Tree = list[Node]
"""Nodes, each before those below it."""


class Columns(Protocol):
    """Columns that a tree can split by."""

    def begin_tree(self, g: Sequence[int], h: Sequence[int]) -> None:
        """Take the slopes of a tree, in fixed point."""

    def sums(self, rows: Sequence[int]) -> list[list[Sums]]:
        """For each column, sums over the rows up to each bin but the last."""

    def split(self, column: int, upper: int, rows: Sequence[int]) -> list[int]:
        """The rows that go left."""


class OwnColumns:
    """Columns in this process: the active party's, or all of them in one place.

    Args:
        bins: (rows, columns) uint8.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._g: Sequence[int] = ()
        self._h: Sequence[int] = ()

    def begin_tree(self, g: Sequence[int], h: Sequence[int]) -> None:
        """See :class:`Columns`."""
        self._g, self._h = g, h

    def sums(self, rows: Sequence[int]) -> list[list[Sums]]:
        """See :class:`Columns`."""
        g, h = (sums_up_to(self._bins, rows, of, 0) for of in (self._g, self._h))
        return [[Sums(*pair) for pair in zip(*column, strict=True)] for column in zip(g, h, strict=True)]

    def split(self, column: int, upper: int, rows: Sequence[int]) -> list[int]:
        """See :class:`Columns`."""
        return [row for row in rows if self._bins[row, column] <= upper]


def boost(parties: Sequence[Columns], labels: Sequence[int], at: Boosting) -> tuple[list[Tree], Matrix]:
    """Boosted trees with the logistic loss.

    Args:
        parties: whose columns to split by.
        labels: (n,) of 0 and 1.
        at: settings.

    Returns:
        The trees, and the scores (n,) of the rows, log-odds.
    """
    y = np.array(labels, np.float64)
    scores = np.full(len(y), np.log(y.mean() / (1 - y.mean())))
    trees: list[Tree] = []
    for _ in range(at.trees):
        p = 1 / (1 + np.exp(-scores))
        g, h = fixed(p - y, BITS), fixed(p * (1 - p), BITS)
        for party in parties:
            party.begin_tree(g, h)
        tree = list(_grow(parties, g, h, list(range(len(y))), at.depth, at))
        for node in tree:
            if node.split is None:
                scores[node.rows] += at.rate * node.value
        trees.append(tree)
    return trees, scores


def _grow(
    parties: Sequence[Columns], g: list[int], h: list[int], rows: list[int], depth: int, at: Boosting
) -> Iterator[Node]:
    total = Sums(sum(g[row] for row in rows), sum(h[row] for row in rows))
    best = best_split([party.sums(rows) for party in parties], total, at) if depth else None
    yield Node(rows, best, -total.g / (total.h + at.penalty * 2**BITS))
    if best:
        left = parties[best.party].split(best.column, best.bin, rows)
        for side in (left, sorted(set(rows) - set(left))):
            yield from _grow(parties, g, h, side, depth - 1, at)


def best_split(candidates: Sequence[list[list[Sums]]], total: Sums, at: Boosting) -> TreeSplit | None:
    """The split with the largest gain; the first of equals. None if none gains.

    Args:
        candidates: what goes left, by party, column and bin.
        total: of the node.
        at: settings.
    """
    gain_of = {
        TreeSplit(party, column, upper): _term(left, at) + _term(right, at) - _term(total, at)
        for party, columns in enumerate(candidates)
        for column, lefts in enumerate(columns)
        for upper, left in enumerate(lefts)
        if min(left.h, (right := Sums(total.g - left.g, total.h - left.h)).h) >= at.least_hessian * 2**BITS
    }
    best = max(gain_of, key=gain_of.__getitem__, default=None)
    return best if best and gain_of[best] > 0 else None


def _term(of: Sums, at: Boosting) -> float:
    g, h = of.g / float(2**BITS), of.h / float(2**BITS)
    return g * g / (h + at.penalty)


def sums_up_to(bins: Bins, rows: Sequence[int], values: Sequence[Any], zero: Any) -> list[list[Any]]:
    """For each column, sums of numbers or ciphertexts over the rows in bins up to each but the last."""
    found = []
    for column in bins.T:
        of_bin = [zero] * int(column.max() + 1)
        for row in rows:
            of_bin[column[row]] = of_bin[column[row]] + values[row]
        found.append(list(accumulate(of_bin))[:-1])
    return found


def binned(x: Matrix, bins: int) -> Bins:
    """Numbers of the quantiles that values lie between, (rows, columns)."""
    edges = np.quantile(x, np.linspace(0, 1, bins + 1)[1:-1], axis=0)
    return np.asarray((x[None] > edges[:, None]).sum(axis=0), np.uint8)


def breast_cancer(rows: int, bins: int, seed: int) -> tuple[Bins, list[int]]:
    """The breast cancer data of scikit-learn: means, standard errors and worst values of ten measures, 0 malignant."""
    from sklearn.datasets import load_breast_cancer  # takes a second, which the processes of parties need not

    x, y = load_breast_cancer(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(y))[:rows]
    return binned(x[chosen], bins), y[chosen].tolist()
