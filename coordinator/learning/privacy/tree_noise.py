"""The noise of DP-FTRL: each prefix sum of a task's updates has the noise of a few nodes of a binary tree.

The leaves of a tree are S rounds in a row, and each node has its own noise, N(0, 1) in each coordinate. The sum of the
first t rounds gets the noise E of the nodes that cover exactly these rounds, one for each 1 in the binary form of t.
So the variance of a sum grows with log t, and not with t, as it would with fresh noise in each round. A round's mean
gets the difference of the noise of two prefix sums: whatever a server optimizer makes of it is post-processing.

The noise of a node is estimated from its own and that of its children, which lowers its variance to v(d), with d as the
depth of the estimate::

    E(node) = v(d) noise(node) + (1 - v(d)) (E(left) + E(right)),    v(d) = 2^d / (2^(d+1) - 1)

v(4) = 0.516 is near the limit 1/2, so an estimate is no deeper. After S rounds a new tree begins.

Noise is a function of secrets and the node, so an aggregation that is repeated after a crash adds the same noise:
different noise on the same sum could be averaged away. Who has the secrets can take the noise off, so few are kept
(:func:`ratcheted`). The seeds of a leaf's nodes come from a key that is replaced by its hash when the leaf is over. Of
the nodes before it only those seeds stay that later rounds need: at most 31 for each 1 in the binary form of t, and
after the last leaf none. What is gone cannot be derived from what is stored. The rest can: noise that later rounds
build on has to be kept until they have.

A seed that is missing is drawn anew from the present key. That is sound in the middle of a tree, too: the rounds before
count as zeros in a tree of its own, and a device is in one leaf of both together.

Sources: Kairouz et al. 2021, "Practical and Private (Deep) Learning without Sampling or Shuffling", algorithm 1 and
appendix D (restarts); Honaker 2015, "Efficient Use of Differentially Private Binary Trees", for the estimate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from nightjar.coordinator.learning.strategies import Wide

DEPTH = 4


NodeSeeds = Mapping[str, str]
"""Seed of a node in hex, by ``level/index`` in the tree of the round."""


def noise_step(
    key: bytes, step: int, leaves: int, size: int, kept: NodeSeeds = MappingProxyType({}), purpose: bytes = b""
) -> Wide:
    """The noise of a round: that of the prefix sum with the round, minus that of the prefix sum before it.

    >>> noise_step(b"secret", 0, 1, 2).tolist() == noise_step(b"secret", 1, 1, 2).tolist()
    False

    Args:
        key: the secret from which seeds come that are not kept.
        step: number of the round among those that count, from 0.
        leaves: S, rounds of a tree.
        size: n.
        kept: the seeds of former rounds' nodes.
        purpose: other noise for the same nodes has another name.

    Returns:
        (n,) float64, to be multiplied with the noise multiplier and the sensitivity.
    """
    tree, leaf = divmod(step, leaves)

    def drawn(level: int, index: int) -> Wide:
        digest = hashlib.blake2b(purpose, key=_seed(key, tree, level, index, kept), digest_size=16).digest()
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
        return generator.standard_normal(size)

    level = _completed(leaf)
    noise = _estimate(drawn, level, leaf >> level, DEPTH)
    for below in range(level):  # the nodes that covered the rounds before
        noise -= _estimate(drawn, below, (leaf >> below) - 1, DEPTH)
    return noise


def ratcheted(key: bytes, step: int, leaves: int, kept: NodeSeeds) -> tuple[bytes, dict[str, str]]:
    """The key and the seeds for the rounds after a round; from them the others cannot be derived.

    >>> key, kept = ratcheted(b"secret", 0, 2, {})
    >>> list(kept), ratcheted(key, 1, 2, kept)[1]
    (['0/0'], {})
    """
    tree, leaf = divmod(step, leaves)
    nodes = _open_nodes(leaf + 1) if leaf + 1 < leaves else ()
    seeds = {_name(*node): _seed(key, tree, *node, kept).hex() for node in nodes}
    return hashlib.blake2b(b"next", key=key, digest_size=32).digest(), seeds


def _open_nodes(count: int) -> Iterator[tuple[int, int]]:
    """The nodes, by level and index, that rounds after the first ``count`` of a tree build on."""
    for level in range(count.bit_length()):
        if count >> level & 1:
            for down in range(min(level, DEPTH) + 1):
                first = (count >> level) - 1 << down
                yield from ((level - down, index) for index in range(first, first + (1 << down)))


def _seed(key: bytes, tree: int, level: int, index: int, kept: NodeSeeds) -> bytes:
    held = kept.get(_name(level, index))
    if held is not None:
        return bytes.fromhex(held)
    return hashlib.blake2b(repr((tree, level, index)).encode(), key=key, digest_size=16).digest()


def _name(level: int, index: int) -> str:
    return f"{level}/{index}"


def _completed(leaf: int) -> int:
    """Level of the largest node that a leaf completes."""
    count = leaf + 1
    return (count & -count).bit_length() - 1


def prefix_variance(count: int) -> float:
    """Variance of the noise in the sum of a tree's first rounds.

    >>> prefix_variance(1), round(prefix_variance(2), 3), round(prefix_variance(3), 3)
    (1.0, 0.667, 1.667)
    """
    return sum(_variance(min(level, DEPTH)) for level in range(count.bit_length()) if count >> level & 1)


def _variance(depth: int) -> float:
    return 2.0**depth / (2.0 ** (depth + 1) - 1)


def _estimate(drawn: Callable[[int, int], Wide], level: int, index: int, depth: int) -> Wide:
    own, depth = drawn(level, index), min(depth, level)
    if not depth:
        return own
    share = _variance(depth)
    below = _estimate(drawn, level - 1, 2 * index, depth - 1)
    below += _estimate(drawn, level - 1, 2 * index + 1, depth - 1)
    return share * own + (1 - share) * below
