"""A random rotation, of whose result random coordinates are sent: every coordinate of the update is in each of them.

Source: Konecny et al. 2016, "Federated Learning: Strategies for Improving Communication Efficiency", section 3, and
Suresh et al. 2017 for the rotation: random signs, then the Walsh-Hadamard transform.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nightjar.experiments.linear.contract import State, SummedRound
from nightjar.wire.codec.sparsify import count_for
from nightjar.wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True)
class Rotated:
    """Implements :class:`~nightjar.experiments.linear.contract.Compressor`; ``share`` is k / n."""

    share: float

    def begin(self, layout: ParameterLayout) -> State:
        """Nothing is kept."""
        del layout
        return {}

    def round(self, state: State, layout: ParameterLayout, rng: np.random.Generator) -> SummedRound:
        """A new rotation and a new draw in each round; both follow from a seed."""
        del state
        length = 1 << (layout.size - 1).bit_length()
        signs = rng.choice(np.array([-1, 1], np.float32), layout.size)
        chosen = rng.choice(length, count_for(self.share, layout.size), replace=False)

        def encode(update: Vector) -> Vector:
            padded = np.zeros(length, np.float32)
            padded[: layout.size] = signs * update
            return hadamard(padded)[chosen]

        def decode(values: Vector) -> Vector:
            padded = np.zeros(length, np.float32)
            padded[chosen] = values
            return signs * hadamard(padded)[: layout.size]

        return SummedRound((chosen.size,), encode, decode)

    def after(self, state: State, decoded: Vector, values: Vector) -> tuple[Vector, State]:
        """The projection, as it is."""
        del values
        return decoded, state


def hadamard(vector: Vector) -> Vector:
    """The orthonormal Walsh-Hadamard transform of a vector whose length is a power of 2; its own inverse.

    >>> hadamard(np.array([1, 1, 1, 1], np.float32)).tolist()
    [2.0, 0.0, 0.0, 0.0]
    """
    found, half = vector, 1
    while half < vector.size:
        pairs = found.reshape(-1, 2, half)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return np.asarray(found / np.sqrt(vector.size), np.float32)
