"""A count sketch, with the error feedback at the coordinator.

Source: Rothchild et al. 2020, "FetchSGD", algorithm 1; the momentum is left to the server's optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.experiments.linear.contract import State, SummedRound
from nightjar.wire.codec.sparsify import top_k
from nightjar.wire.parameters import ParameterLayout, Vector

TABLES = 5
_SEED = 1


@dataclass(frozen=True, slots=True)
class CountSketch:
    """Implements :class:`~nightjar.experiments.linear.contract.Compressor`.

    Attributes:
        columns: counters in each of the tables.
        applied: how many coordinates are applied after a round; the others wait.
    """

    columns: int
    applied: int

    def begin(self, layout: ParameterLayout) -> State:
        """An empty sketch of what waits."""
        return {
            "waiting": np.zeros(TABLES * self.columns, np.float32),
            "size": np.array([layout.size], np.float32),
        }

    def round(self, state: State, layout: ParameterLayout, rng: np.random.Generator) -> SummedRound:
        """The same hashes in all rounds, or what waits could not be added."""
        del state, rng
        return SummedRound((TABLES * self.columns,), self._sketch, lambda values: self._read(values, layout.size))

    def after(self, state: State, decoded: Vector, values: Vector) -> tuple[Vector, State]:
        """Apply the largest of what waits and take them out of it."""
        waiting = state["waiting"] + values
        applied = top_k(self._read(waiting, decoded.size), self.applied).dense()
        return applied, {**state, "waiting": waiting - self._sketch(applied)}

    def _sketch(self, update: Vector) -> Vector:
        buckets, signs = self._hashes(update.size)
        return np.concatenate(
            [np.bincount(buckets[i], signs[i] * update, self.columns).astype(np.float32) for i in range(TABLES)]
        )

    def _read(self, values: Vector, size: int) -> Vector:
        buckets, signs = self._hashes(size)
        tables = values.reshape(TABLES, self.columns)
        read = [signs[i] * tables[i][buckets[i]] for i in range(TABLES)]
        return np.asarray(np.median(read, axis=0), np.float32)

    def _hashes(self, size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        rng = np.random.default_rng([_SEED, size])
        buckets = rng.integers(0, self.columns, (TABLES, size))
        return buckets, rng.choice(np.array([-1, 1], np.float32), (TABLES, size))
