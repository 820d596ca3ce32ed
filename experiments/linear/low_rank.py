"""The product's compressor: two projections of each matrix (:mod:`nightjar.wire.secure_sum.low_rank`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from nightjar.experiments.linear.contract import State, SummedRound
from nightjar.wire.parameters import ParameterLayout, Vector
from nightjar.wire.secure_sum.low_rank import Rank, bases_of, decode, encode, group_sizes, next_average, to_bytes


@dataclass(frozen=True, slots=True)
class LowRank:
    """Implements :class:`~nightjar.experiments.linear.contract.Compressor`."""

    rank: Rank

    def begin(self, layout: ParameterLayout) -> State:
        """Nothing is known."""
        return {"average": np.zeros(layout.size, np.float32)}

    def round(self, state: State, layout: ParameterLayout, rng: np.random.Generator) -> SummedRound:
        """Bases from the average; they are sent."""
        bases = bases_of(state["average"], layout, self.rank, rng)
        sizes = group_sizes(layout, self.rank)
        return SummedRound(
            sizes,
            partial(encode, layout=layout, bases=bases),
            partial(decode, layout=layout, bases=bases),
            len(to_bytes(bases, np.ones(len(sizes), np.float32))),
        )

    def after(self, state: State, decoded: Vector, values: Vector) -> tuple[Vector, State]:
        """The average of what was decoded."""
        del values
        return decoded, {"average": next_average(state["average"], decoded)}
