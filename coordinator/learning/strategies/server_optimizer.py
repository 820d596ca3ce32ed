"""What a server optimizer is: a pair of pure functions that take a state and return the next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wire.parameters import Vector

Wide = npt.NDArray[np.float64]
"""(n,) float64."""
State = npt.NDArray[np.float64]
"""(vectors, n) float64: what an optimizer keeps from round to round; FedAvg has no vectors."""


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the mean update of a round changes the model. Nothing is modified in place.

    Attributes:
        init: n -> initial state.
        apply: (weights (n,) float32, mean (n,) float64, state) -> (next weights (n,) float32, next state).
    """

    init: Callable[[int], State]
    apply: Callable[[Vector, Wide, State], tuple[Vector, State]]


def moved(weights: Vector, step: Wide) -> Vector:
    """``weights + step``, added in float64."""
    return (weights.astype(np.float64) + step).astype(np.float32)
