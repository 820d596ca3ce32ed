"""What a linear compressor is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nightjar.wire.parameters import ParameterLayout, Vector

State = Mapping[str, npt.NDArray[np.float32]]
"""What the coordinator keeps from round to round, by name."""


@dataclass(frozen=True, slots=True)
class SummedRound:
    """The compressor of one round, the same on all devices.

    Attributes:
        sizes: how many of the k values have the same spread, group by group.
        encode: (n,) float32 -> (k,) float32, linear.
        decode: (k,) float32 -> (n,) float32.
        bytes_down: what devices must be sent to know it.
    """

    sizes: tuple[int, ...]
    encode: Callable[[Vector], Vector]
    decode: Callable[[Vector], Vector]
    bytes_down: int = 0


class Compressor(Protocol):
    """Chooses the compressor of each round from the sums before it."""

    def begin(self, layout: ParameterLayout) -> State:
        """The state before the first round."""

    def round(self, state: State, layout: ParameterLayout, rng: np.random.Generator) -> SummedRound:
        """The compressor of a round; what it draws from the generator, devices draw, too."""

    def after(self, state: State, decoded: Vector, values: Vector) -> tuple[Vector, State]:
        """The mean update (n,) to apply after a round, and the state of the next.

        Args:
            state: of the round.
            decoded: (n,) float32, what the sum was decoded to.
            values: (k,) float32, the mean of the encoded updates.
        """
