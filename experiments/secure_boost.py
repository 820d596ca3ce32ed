"""SecureBoost (Cheng et al. 2021): gradient-boosted trees over columns of several parties, one of which has the labels.

A small reference protocol for honest but curious parties, not a product; rows are aligned before
(:mod:`experiments.alignment`). The active party has labels, columns and the Paillier key, passive ones have columns::

    active -> passive   [g_i], [h_i] of all rows: slopes of the loss      once for each tree
    active -> passive   the rows of a node
    passive -> active   for each of its columns and each bin b: [sum of g], [sum of h] over rows in bins up to b
    active              the best split by  G_L^2/(H_L+l) + G_R^2/(H_R+l) - G^2/(H+l)
    active -> passive   which of its splits was the best
    passive -> active   the rows that go left; it keeps column and threshold to itself, under a number

Sums of the fixed-point g and h are exact, so the trees are those of the same algorithm on all columns in one place. What
passive parties learn: which rows are together in a node. What the active party learns: sums of its own g over bins, from
which a passive party's order of few rows can be found, and which rows a split sends left.

    python -m experiments.secure_boost --form short --out build/secure_boost --json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from phe import generate_paillier_keypair

from experiments.paillier import Encrypted, Private, decrypt, encrypt, fixed, from_bytes, public_key, to_bytes
from experiments.parties import Post, Run, run_parties

Matrix = npt.NDArray[np.float64]
Bins = npt.NDArray[np.uint8]
ACTIVE = "active"
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


class Split(NamedTuple):
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
    split: Split | None
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


@dataclass(frozen=True, slots=True)
class PassiveColumns:
    """The active party's view of a passive one."""

    post: Post
    party: str
    private: Private

    def begin_tree(self, g: Sequence[int], h: Sequence[int]) -> None:
        """See :class:`Columns`."""
        public = self.private.public_key
        self.post.send(self.party, "slopes", [to_bytes(encrypt(public, each) for each in of) for of in (g, h)])

    def sums(self, rows: Sequence[int]) -> list[list[Sums]]:
        """See :class:`Columns`."""
        self.post.send(self.party, "node", rows)
        public = self.private.public_key
        return [
            [Sums(*(decrypt(self.private, each) for each in from_bytes(public, pair))) for pair in column]
            for column in self.post.receive(self.party, "sums")
        ]

    def split(self, column: int, upper: int, rows: Sequence[int]) -> list[int]:
        """See :class:`Columns`."""
        self.post.send(self.party, "split", [column, upper, rows])
        left: list[int] = self.post.receive(self.party, "left rows")
        return left


def passive(post: Post, bins: list[list[int]]) -> list[list[int]]:
    """A passive party. Returns the column and bin of each split that it was asked for."""
    own = np.array(bins, np.uint8)
    chosen: list[list[int]] = []
    public = public_key(post.receive(ACTIVE, "n"))
    slopes: list[list[Encrypted]] = []
    while (request := post.receive_any(ACTIVE)).kind != "end":
        match request.kind:
            case "slopes":
                slopes = [from_bytes(public, of) for of in request.value]
            case "node":
                g, h = (sums_up_to(own, request.value, of, encrypt(public, 0)) for of in slopes)
                pairs = [[to_bytes(pair) for pair in zip(*column, strict=True)] for column in zip(g, h, strict=True)]
                post.send(ACTIVE, "sums", pairs)
            case _:
                column, upper, rows = request.value
                chosen.append([column, upper])
                post.send(ACTIVE, "left rows", [row for row in rows if own[row, column] <= upper])
    return chosen


def active(post: Post, bins: list[list[int]], labels: list[int], others: list[str], at: Boosting) -> list[Tree]:
    """The active party. Returns the trees."""
    _, private = generate_paillier_keypair(n_length=at.key_bits)
    for other in others:
        post.send(other, "n", private.public_key.n.to_bytes(at.key_bits // 8))
    parties = [OwnColumns(np.array(bins, np.uint8)), *(PassiveColumns(post, other, private) for other in others)]
    trees, _ = boost(parties, labels, at)
    for other in others:
        post.send(other, "end", None)
    return trees


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


def best_split(candidates: Sequence[list[list[Sums]]], total: Sums, at: Boosting) -> Split | None:
    """The split with the largest gain; the first of equals. None if none gains.

    Args:
        candidates: what goes left, by party, column and bin.
        total: of the node.
        at: settings.
    """
    gain_of = {
        Split(party, column, upper): _term(left, at) + _term(right, at) - _term(total, at)
        for party, columns in enumerate(candidates)
        for column, lefts in enumerate(columns)
        for upper, left in enumerate(lefts)
        if min(left.h, (right := Sums(total.g - left.g, total.h - left.h)).h) >= at.least_hessian * 2**BITS
    }
    best = max(gain_of, key=gain_of.__getitem__, default=None)
    return best if best and gain_of[best] > 0 else None


def _term(of: Sums, at: Boosting) -> float:
    return (of.g / 2**BITS) ** 2 / (of.h / 2**BITS + at.penalty)


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
    return (x[None] > edges[:, None]).sum(axis=0).astype(np.uint8)


def breast_cancer(rows: int, bins: int, seed: int) -> tuple[Bins, list[int]]:
    """The breast cancer data of scikit-learn: means, standard errors and worst values of ten measures, 0 malignant."""
    from sklearn.datasets import load_breast_cancer  # takes a second, which the processes of parties need not

    x, y = load_breast_cancer(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(y))[:rows]
    return binned(x[chosen], bins), y[chosen].tolist()


def run(bins: Bins, labels: list[int], at: Boosting) -> Run:
    """Run three processes: the labels are with the first ten columns, and two passive parties hold ten each."""
    a, b, c = (part.tolist() for part in np.split(bins, 3, axis=1))
    others = ["passive-1", "passive-2"]
    return run_parties({
        ACTIVE: partial(active, bins=a, labels=labels, others=others, at=at),
        others[0]: partial(passive, bins=b),
        others[1]: partial(passive, bins=c),
    })  # fmt: skip
