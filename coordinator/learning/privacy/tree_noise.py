"""The noise of DP-FTRL: each prefix sum of a task's updates has the noise of a few nodes of a binary tree.

The leaves of a tree are S rounds in a row, and each node has its own noise, N(0, 1) in each coordinate. The sum of the
first t rounds gets the noise E of the nodes that cover exactly these rounds, one for each 1 in the binary form of t.
So the variance of a sum grows with log t, and not with t, as it would with fresh noise in each round. A round's mean
gets the difference of the noise of two prefix sums: whatever a server optimizer makes of it is post-processing.

The noise of a node is estimated from its own and that of its children, which lowers its variance to v(d), with d as the
depth of the estimate::

    E(node) = v(d) noise(node) + (1 - v(d)) (E(left) + E(right)),    v(d) = 2^d / (2^(d+1) - 1)

v(4) = 0.516 is near the limit 1/2, so an estimate is no deeper. After S rounds a new tree begins.

Noise is a function of a secret key and the node, so an aggregation that is repeated after a crash adds the same noise:
different noise on the same sum could be averaged away. Who has the key can take the noise off.

Sources: Kairouz et al. 2021, "Practical and Private (Deep) Learning without Sampling or Shuffling", algorithm 1 and
appendix D (restarts); Honaker 2015, "Efficient Use of Differentially Private Binary Trees", for the estimate.
"""

from __future__ import annotations

import hashlib

import numpy as np

from nightjar.coordinator.learning.strategies import Wide

DEPTH = 4


def noise_step(key: bytes, step: int, leaves: int, size: int) -> Wide:
    """The noise of a round: that of the prefix sum with the round, minus that of the prefix sum before it.

    >>> noise_step(b"secret", 0, 1, 2).tolist() == noise_step(b"secret", 1, 1, 2).tolist()
    False

    Args:
        key: the task's secret.
        step: number of the round among those that count, from 0.
        leaves: S, rounds of a tree.
        size: n.

    Returns:
        (n,) float64, to be multiplied with the noise multiplier and the sensitivity.
    """
    tree, leaf = divmod(step, leaves)
    count = leaf + 1
    level = (count & -count).bit_length() - 1  # of the node that this leaf completes
    noise = _estimate(key, (tree, level, leaf >> level), DEPTH, size)
    for below in range(level):  # the nodes that covered the rounds before
        noise -= _estimate(key, (tree, below, (leaf >> below) - 1), DEPTH, size)
    return noise


def prefix_variance(count: int) -> float:
    """Variance of the noise in the sum of a tree's first rounds.

    >>> prefix_variance(1), round(prefix_variance(2), 3), round(prefix_variance(3), 3)
    (1.0, 0.667, 1.667)
    """
    return sum(_variance(min(level, DEPTH)) for level in range(count.bit_length()) if count >> level & 1)


def _variance(depth: int) -> float:
    return 2.0**depth / (2.0 ** (depth + 1) - 1)


def _estimate(key: bytes, node: tuple[int, int, int], depth: int, size: int) -> Wide:
    tree, level, index = node
    drawn = _generator(key, node).standard_normal(size)
    depth = min(depth, level)
    if not depth:
        return drawn
    share = _variance(depth)
    below = _estimate(key, (tree, level - 1, 2 * index), depth - 1, size)
    below += _estimate(key, (tree, level - 1, 2 * index + 1), depth - 1, size)
    return share * drawn + (1 - share) * below


def _generator(key: bytes, node: tuple[int, int, int]) -> np.random.Generator:
    digest = hashlib.blake2b(repr(node).encode(), key=key, digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
