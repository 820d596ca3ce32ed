"""One training with a compressor: the laboratory's, with a cohort's mean as a secure sum gives it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from nightjar.coordinator.learning.fedavg import Aggregate, Combined, Contribution
from nightjar.coordinator.learning.robust import Collected
from nightjar.experiments.linear.contract import Compressor, State
from nightjar.experiments.linear.variants import COHORT, CompressorVariant
from nightjar.simulation.laboratory.checkpoint import Point
from nightjar.simulation.laboratory.executor import InProcess
from nightjar.simulation.laboratory.training import PreparedTraining, run
from nightjar.simulation.warm_start import seeded
from nightjar.wire.secure_sum.grid import FIRST_SPREAD, Grid, mean_of, spread_in, spread_out, to_words
from nightjar.wire.secure_sum.masks import Words

SPREAD = "spread"


class Sums:
    """The sums of a training's rounds; the state after each measured round is kept beside its checkpoint."""

    def __init__(self, compressor: Compressor, bits: int, prepared: PreparedTraining, first: int = 1) -> None:
        self._compressor, self._bits, self._prepared, self._first = compressor, bits, prepared, first
        self._grid = Grid.of(bits, COHORT)
        self._state: State | None = None

    def aggregate(self, number: int) -> Aggregate:
        """How the updates of a round are combined."""
        return partial(Collected, partial(self.combine, number))

    def cost(self, number: int) -> tuple[int, int]:
        """Bytes of the values in a report of a round, and of what a device is sent to encode them."""
        state, generator = self._before(number), seeded(self._prepared.seed, "compressor", number)
        chosen = self._compressor.round(state, self._prepared.layout, generator)
        values = sum(chosen.sizes) + len(chosen.sizes) + 1
        return -(-values * self._bits // 8), chosen.bytes_down

    def combine(self, number: int, cohort: Sequence[Contribution], size: int) -> Combined:
        """The sum of the updates of a round, as the compressor gives it; the state after the round is kept."""
        layout, seed = self._prepared.layout, self._prepared.seed
        state = self._before(number)
        chosen = self._compressor.round(state, layout, seeded(seed, "compressor", number))
        sizes = chosen.sizes
        spread = state.get(SPREAD, np.full(len(sizes), FIRST_SPREAD, np.float32))
        most = max(each.weight for each in cohort)
        total: Words = np.zeros(sum(sizes) + len(sizes) + 1, np.uint32)
        for each in cohort:
            update = np.float32(each.scale) * each.update.dense()
            rounding = seeded(seed, "grid", number, each.device)
            values = spread_out(chosen.encode(update), sizes, spread)
            total += to_words(values, each.weight / most, self._grid, self._bits, rounding)
        mean = mean_of(total & np.uint32((1 << self._bits) - 1), self._grid, self._bits)
        values, following = spread_in(mean, sizes, spread)
        applied, kept = self._compressor.after(state, chosen.decode(values), values)
        self._keep(number, {**kept, SPREAD: following})
        assert applied.size == size
        return Combined(applied.astype(np.float64))

    def _before(self, number: int) -> State:
        if self._state is not None:
            return self._state
        if number == self._first:
            return self._compressor.begin(self._prepared.layout)
        with np.load(self._file(number - 1)) as kept:
            return dict(kept)

    def _keep(self, number: int, state: State) -> None:
        self._state = state
        experiment = self._prepared.experiment
        if number % experiment.evaluation.every == 0 or number == experiment.rounds:
            np.savez(self._file(number), **state)  # type: ignore[arg-type]  # no state is named allow_pickle
            for old in self._prepared.folder.glob("compressor-*.npz"):
                if int(old.stem.split("-")[1]) < number - experiment.evaluation.every:
                    old.unlink()

    def _file(self, number: int) -> Path:
        return self._prepared.folder / f"compressor-{number}.npz"


def trained(prepared: PreparedTraining, variant: CompressorVariant) -> tuple[list[Point], int, int]:
    """Train with a compressor, from the last checkpoint on if there is one.

    Returns:
        The curve, and the bytes of a report's values and of what a device is sent to encode them.

    Raises:
        UnavailableError: a device could not train, or the model is not finite any more.
    """
    executor, rounds = executor_of(prepared), prepared.experiment.rounds
    if variant.compressor is None:
        return run(prepared, executor), 4 * prepared.layout.size, 0
    sums = Sums(variant.compressor, variant.bits, prepared)
    return run(prepared, executor, aggregate=sums.aggregate), *sums.cost(rounds + 1)


def executor_of(prepared: PreparedTraining) -> InProcess:
    """Trains the devices of a run in this process."""
    return InProcess(prepared.device_maker()(prepared.program), prepared.folder)
