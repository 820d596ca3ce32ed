"""SecureBoost (Cheng et al. 2021): gradient-boosted trees over columns of several parties, one of which has the labels.

A small reference protocol for honest but curious parties, not a product; rows are aligned before
(:mod:`nightjar.experiments.alignment`). The active party has labels, columns and the Paillier key, passive ones have
columns::

    active -> passive   [g_i], [h_i] of all rows: slopes of the loss      once for each tree
    active -> passive   the rows of a node
    passive -> active   for each of its columns and each bin b: [sum of g], [sum of h] over rows in bins up to b
    active              the best split by  G_L^2/(H_L+l) + G_R^2/(H_R+l) - G^2/(H+l)
    active -> passive   which of its splits was the best
    passive -> active   the rows that go left; what the column means and the threshold stay with it

Sums of the fixed-point g and h are exact, so the trees are those of the same algorithm on all columns in one place.
What passive parties learn: which rows are together in a node. What the active party learns: which rows a split sends
left, and sums of its own g over bins, from which the order of few rows in a passive party's column can be found.

    python -m nightjar.experiments.secure_boost --form short --out build/secure_boost --json
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from phe import generate_paillier_keypair

from nightjar.experiments.boosting import (
    Bins,
    Boosting,
    Columns,
    OwnColumns,
    Sums,
    Tree,
    boost,
    breast_cancer,
    sums_up_to,
)
from nightjar.experiments.frame import Request, ResultRow, page_command, row
from nightjar.experiments.paillier import Encrypted, Private, decrypt, encrypt, from_bytes, public_key, to_bytes
from nightjar.experiments.parties import Post, ProtocolRun, run_parties

ACTIVE = "active"


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
    parties: list[Columns] = [
        OwnColumns(np.array(bins, np.uint8)),
        *(PassiveColumns(post, other, private) for other in others),
    ]
    trees, _ = boost(parties, labels, at)
    for other in others:
        post.send(other, "end", None)
    return trees


def run_protocol(bins: Bins, labels: list[int], at: Boosting) -> ProtocolRun:
    """Run three processes: the labels are with the first ten columns, and two passive parties hold ten each."""
    a, b, c = (part.tolist() for part in np.split(bins, 3, axis=1))
    others = ["passive-1", "passive-2"]
    return run_parties({
        ACTIVE: partial(active, bins=a, labels=labels, others=others, at=at),
        others[0]: partial(passive, bins=b),
        others[1]: partial(passive, bins=c),
    })  # fmt: skip


def run(request: Request) -> list[ResultRow]:
    """SecureBoost of three processes, beside the same trees in one place."""
    at = request.pick(Boosting(2, 2, key_bits=512), Boosting(3, 3, key_bits=1024), Boosting(5, 3))
    bins, labels = breast_cancer(request.pick(60, 200, 569), request.pick(6, 8, 16), seed=1)
    made = run_protocol(bins, labels, at)
    trees, scores = boost([OwnColumns(bins)], labels, at)
    # Columns are numbered from one party to the next: ten each
    splits = [[split and (10 * split[0] + split[1], split[2]) for _, split, _ in tree] for tree in made.results[ACTIVE]]
    pooled = [[node.split and tuple(node.split[1:]) for node in tree] for tree in trees]
    found = np.full(len(labels), np.log(np.mean(labels) / (1 - np.mean(labels))))
    for tree in made.results[ACTIVE]:
        for rows, split, value in tree:
            if split is None:
                found[rows] += at.rate * value
    accuracy, in_one_place = (float(((each > 0) == labels).mean()) for each in (found, scores))
    figures = {
        "same splits": float(splits == pooled),
        "splits of passive parties": float(sum(len(made.results[party]) for party in made.results if party != ACTIVE)),
        "bits of the key": float(at.key_bits),
        "kB sent by the active party": made.sent_bytes(sender=ACTIVE) / 1000,
        "kB sent to it": made.sent_bytes(receiver=ACTIVE) / 1000,
        **{f"processor seconds of {party}": spent for party, spent in made.seconds.items()},
    }
    return [row(request, "SecureBoost", [accuracy], seeds=[1], pooled=in_one_place, figures=figures)]


main = page_command("secure_boost", run)

if __name__ == "__main__":
    main()
