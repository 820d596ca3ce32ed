"""All coordinates, with few levels each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nightjar.experiments.linear.contract import State, SummedRound
from nightjar.wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True)
class Whole:
    """Implements :class:`~nightjar.experiments.linear.contract.Compressor`: identity, one spread for each tensor."""

    def begin(self, layout: ParameterLayout) -> State:
        """Nothing is kept."""
        del layout
        return {}

    def round(self, state: State, layout: ParameterLayout, rng: np.random.Generator) -> SummedRound:
        """The same in all rounds."""
        del state, rng
        return SummedRound(
            tuple(tensor.size for tensor in layout.tensors), lambda update: update, lambda values: values
        )

    def after(self, state: State, decoded: Vector, values: Vector) -> tuple[Vector, State]:
        """The mean, as it is."""
        del values
        return decoded, state
