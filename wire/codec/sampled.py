"""The sampled codec: an unbiased sparse update. Its expectation is the whole update, so the device keeps no state.

Top-k always leaves out the same small entries, and a device that does not come back never sends them: most words, and
most of what follows the commonest ones, are then learned by nobody. Here every entry may be sent. With a threshold t,
an entry x is sent with probability ``p = min(1, |x| / t)``, as ``x / p``: from t on as it is, below as t with its sign.
So the expectation is x, and among all unbiased ways to send k entries this one has the least variance. t is such that
the probabilities sum to k, and *systematic sampling* draws k entries: where their running sum crosses u, u + 1, u + 2
and so on, with one u between 0 and 1.

Values lie on a logarithmic grid whose first point is t and whose last one reaches the largest value. Rounding is
stochastic, so it is unbiased, too. Most magnitudes are t and cost little more than their sign. The payload is that of
``topk-4`` with another prior for levels.

Source: Wangni et al. 2018, "Gradient Sparsification for Communication-Efficient Distributed Optimization" (p); Madow
1949, "On the Theory of Systematic Sampling, II".
"""

from __future__ import annotations

import numpy as np

from nightjar.wire.codec.contract import Encoded, Read, Write
from nightjar.wire.codec.quantize import Ints, Logarithmic, Wide, dequantize, most_for, quantize, reaching_grid
from nightjar.wire.codec.sparsify import Sparse, count_for, top_k
from nightjar.wire.codec.topk import encode_levels, reader
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.parameters import ParameterLayout, Vector

BITS = 4
"""A sign and seven magnitudes: the largest is at most 64 times the threshold."""
ONES = 1 << 14
"""First weight of magnitude 1, 256 times that of another."""
_REACH = 2.0 ** (most_for(BITS) - 1)
_LARGEST = float(np.finfo(np.float32).max)


def codec(density: float) -> tuple[Write, Read]:
    """The pair of functions for a density: k is the density times the number of parameters."""

    def write(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> Encoded:
        drawn, levels, grid = sampled_levels(delta, count_for(density, layout.size), rng)
        sent = Sparse(layout.size, drawn.indices, dequantize(levels, grid))
        return Encoded(lambda: encode_levels(drawn.indices, levels, grid, layout, ONES), sent)

    return write, reader(density, BITS, ONES)


def sampled_levels(vector: Vector, k: int, rng: np.random.Generator) -> tuple[Sparse, Ints, Logarithmic]:
    """Draw at most k entries and round them to levels; returns the entries, their levels and the grid."""
    drawn, threshold = sample(vector, k, rng)
    grid = reaching_grid(threshold, float(np.abs(drawn.values).max(initial=0)), BITS)
    return drawn, quantize(drawn.values, grid, rng), grid


def sample(vector: Vector, k: int, rng: np.random.Generator) -> tuple[Sparse, float]:
    """Draw at most k entries of a finite vector (n,) float32, so that the expectation is the vector.

    Returns:
        The entries, with magnitudes of at least the threshold; and the threshold, a float32, 0 if there are none.

    Raises:
        LocalProtocolError: the threshold would be beyond float32.

    >>> drawn, threshold = sample(np.array([4, 0, -1, 1], np.float32), 2, np.random.default_rng(0))
    >>> drawn.values.tolist(), threshold
    ([4.0, 2.0], 2.0)
    """
    magnitudes = np.abs(vector.astype(np.float64))
    threshold = _threshold(vector, magnitudes, k)
    if threshold == 0:
        return top_k(vector, 0), threshold
    sure = np.flatnonzero(magnitudes >= threshold)
    rest = np.flatnonzero((magnitudes < threshold) & (magnitudes > 0))
    running = np.cumsum(magnitudes[rest] / threshold) if rest.size else np.zeros(1)
    # The sum may be a rounding error above the number of points, and draws none beyond them.
    points = rng.random() + np.arange(k - sure.size)
    chosen = rest[np.searchsorted(running, points[points < running[-1]], side="right")]
    indices = np.sort(np.concatenate([sure, chosen])).astype(np.int64)
    values = np.copysign(np.maximum(magnitudes[indices], threshold), vector[indices]).astype(np.float32)
    return Sparse(vector.size, indices, values), threshold


def _threshold(vector: Vector, magnitudes: Wide, k: int) -> float:
    """The least threshold at which the probabilities sum to at most k, and from which the grid reaches every entry.

    With the j largest entries sure to be sent, the others share ``k - j``: t is their sum divided by that, for the
    first j whose next entry is not above it. Sums are sequential, so every machine gets the same. It is rounded up to a
    float32, because it is sent as one.
    """
    if k == 0 or not magnitudes.any():
        return 0.0
    largest = top_k(vector, k).indices
    descending = np.sort(magnitudes[largest])[::-1]
    others = magnitudes.copy()
    others[largest] = 0
    tails = np.cumsum(np.concatenate([[np.cumsum(others)[-1]], descending[::-1]]))[:0:-1]  # from the j-th largest on
    shared = tails / (k - np.arange(k))
    # With k entries or fewer that are not zero all are sent, and the grid begins at the smallest.
    smallest = float(descending[descending > 0][-1])
    wanted = max(float(shared[np.argmax(descending <= shared)]), smallest, float(descending[0]) / _REACH)
    if wanted > _LARGEST:
        msg = f"a threshold of {wanted:g} does not fit a float32: the update is too large; use dense-f32"
        raise LocalProtocolError(msg)
    rounded = np.float32(wanted)
    return float(rounded if float(rounded) >= wanted else np.nextafter(rounded, np.float32(np.inf)))
