"""One aggregation of sparse updates: where the coordinator calculates it, and whether the bits are the same.

The mean of many reports and one step of an optimizer, in numpy and in TensorFlow's arithmetic on the device that
``processor = "auto"`` takes on this machine, in turn. Decoding the reports is in neither (``benchmarks.codec``). The
status is 1 if the bits differ: on a host with a GPU this is the check that it averages as every other machine does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import click
import numpy as np

from benchmarks.measuring import in_turn_ms, median, show
from benchmarks.setting import SEED
from coordinator.core.aggregate import Contribution, weighted_mean
from coordinator.core.arithmetic import NUMPY, Arithmetic
from coordinator.core.optimizers import OptimizerChoice, OptimizerName, optimizer_for
from models.configurations import configuration
from models.processors import Processor, choose
from wire.codec import Sparse
from wire.identifiers import DeviceId
from wire.parameters import Vector

TITLE = "averaging and one step of FedAdam, numpy and TensorFlow in turn"
DISTINCT = 20
"""Updates; reports are these again and again, because what is timed does not depend on their values."""


def measure(reports: int = 500, density: float = 0.01, rounds: int = 5, model: str = "gboard") -> list[dict[str, Any]]:
    """A row for each arithmetic.

    Args:
        reports: of the round.
        density: share of the values that a report has.
        rounds: timed aggregations; the median counts.
        model: whose number of parameters.
    """
    from coordinator.shell.tensorflow_arithmetic import TensorFlowArithmetic

    shape = configuration(model)
    size = shape.layout(shape.max_vocabulary).size
    generator = np.random.default_rng(SEED)
    places = max(1, int(density * size))
    updates = [
        Sparse(
            size,
            np.sort(generator.choice(size, places, replace=False)).astype(np.int64),
            generator.normal(0, 0.01, places).astype(np.float32),
        )
        for _ in range(DISTINCT)
    ]
    weights = generator.normal(0, 0.1, size).astype(np.float32)
    choice = choose(Processor.AUTO)
    there = TensorFlowArithmetic()
    actions = {
        "numpy": partial(_aggregate, NUMPY, updates, reports, weights),
        "tensorflow": partial(_aggregate, there, updates, reports, weights),
    }
    same = len({action() for action in actions.values()}) == 1
    times = in_turn_ms(actions, rounds, warm_up=0)
    # Where a vector lies, and not where we think that it does.
    where = {"numpy": "CPU", "tensorflow": there.take(np.zeros(1)).device.rpartition("device:")[2]}
    return [
        {
            "arithmetic": name,
            "processor": where[name],
            "why": "always" if name == "numpy" else choice.why,
            "reports": reports,
            "parameters": size,
            "values_per_report": places,
            "median_ms": median(values),
            "reports_per_s": 1e3 * reports / median(values),
            "same_bits": same,
        }
        for name, values in times.items()
    ]


def _aggregate(arithmetic: Arithmetic, updates: list[Sparse], reports: int, weights: Vector) -> bytes:
    """The next weights and the state."""
    optimizer = optimizer_for(OptimizerChoice(name=OptimizerName.FEDADAM, learning_rate=0.003), arithmetic)
    mean = weighted_mean(_contributions(updates, reports), weights.size, arithmetic)
    following, state = optimizer.apply(weights, mean, optimizer.init(weights.size))
    return following.tobytes() + state.tobytes()


def _contributions(updates: list[Sparse], reports: int) -> Iterator[Contribution]:
    for number in range(reports):
        yield Contribution(DeviceId(f"d{number:06d}"), 1.0 + number % 97, updates[number % len(updates)])


@click.command()
@click.option("--reports", default=500, show_default=True, type=click.IntRange(1), help="Of the round.")
@click.option("--density", default=0.01, show_default=True, type=click.FloatRange(0, 1), help="Of a report.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Timed aggregations.")
@click.option("--model", default="gboard", show_default=True, help="Whose number of parameters.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def main(reports: int, density: float, rounds: int, model: str, *, as_json: bool) -> None:
    """Time an aggregation where this machine would do it, and compare the bits with numpy's."""
    rows = measure(reports, density, rounds, model)
    show(TITLE, rows, as_json=as_json, key="averaging")
    if not all(row["same_bits"] for row in rows):
        sys.exit("the bits differ: set processor = 'cpu', and report it")


if __name__ == "__main__":
    main()
