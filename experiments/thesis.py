"""The thesis' tables 5-1 to 5-5: FedSGD and FedAvg on MNIST, 2NN and LeNet-5, IID and in shards of two classes.

100 clients of 600 images; the same random start for all cells. "FedSGD" is here, as in the thesis, one client a round,
in turn; FedAvg averages C x 100 clients of E passes in batches of B. Each cell counts until the test accuracy first
passes a target: epochs in table 5-1 (rounds x E / 100 where distributed), rounds elsewhere. The heads of table 5-3's
small-batch columns are lost: B = 100 remains. Figures 5-2, 5-3 and 5-5 are the curves.

The thesis runs neither q-FedAvg nor DGC nor Selective SGD, which it names as what comes next: they stand on a cell of
table 5-5. DGC takes one step a round of every client, Selective SGD one client a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.catalogue.dgc import dgc
from experiments.catalogue.q_fedavg import q_fedavg
from experiments.catalogue.selective_sgd import selective
from experiments.data_sets import iid, mnist_or_generated, shards
from experiments.engine import Advance, Federation, Plan, Played, averaging, play
from experiments.frame import Request, Row, page_command, row
from experiments.networks import lenet_5, two_nn

CLIENTS = 100
TARGETS = {"2NN": 0.97, "LeNet-5": 0.99}
SEED = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        table: its number.
        network: 2NN or LeNet-5.
        rate: eta.
        batch: B.
        printed: epochs or rounds in the thesis; None if it did not run it.
        target: accuracy to pass.
        passes: E.
        share: C; 0 is one client in turn, None central training.
        sharded: two shards a client instead of IID.
        method: fedavg, or what the thesis only names.
    """

    table: str
    network: str
    rate: float
    batch: int
    printed: float | None
    target: float
    passes: int = 5
    share: float | None = 0.0
    sharded: bool = False
    method: str = "fedavg"

    @property
    def name(self) -> str:
        """Table, network, and what differs between the table's cells."""
        how = "central" if self.share is None else f"C={self.share:g}"
        split = "-shards" if self.sharded else ""
        method = "" if self.method == "fedavg" else f"-{self.method}"
        return f"{self.table}{method} {self.network}{split} {how},E={self.passes},B={self.batch},eta={self.rate:g}"


def _first_table(network: str, printed: Sequence[tuple[float, str, str]]) -> list[Cell]:
    return [
        Cell("5-1", network, rate, batch, float(value), TARGETS[network], 1 if share is None else 5, share)
        for rate, *rows in printed
        for share, figures in zip((None, 0.0), rows, strict=True)
        for batch, value in zip((200, 100, 50, 10), figures.split(), strict=True)
    ]


CELLS = [
    *_first_table(
        "2NN",
        [
            (0.01, "84 41 23 6", "83.3 43 23.55 7.55"),
            (0.02, "43 21 11 3", "43 23.55 13.2 5.75"),
            (0.04, "21 11 6 3", "23.55 14.4 10.2 5.35"),
        ],
    ),
    *_first_table(
        "LeNet-5",
        [
            (0.01, "132 66 29 11", "127.75 91.5 36.5 13.55"),
            (0.02, "54 27 18 4", "71.5 35.5 26.65 11.75"),
            (0.04, "34 13 11 6", "45.5 36.2 12.45 11.8"),
        ],
    ),
    *(
        Cell("5-2", network, 0.04, batch, rounds, TARGETS[network], share=share)
        for network, batch, column in (
            ("2NN", 10, (107, 28, 34, 38, 35)),
            ("2NN", 100, (288, 99, 99, 101, 102)),
            ("LeNet-5", 10, (236, 82, 51, 49, 38)),
            ("LeNet-5", 100, (724, 80, 90, 114, 134)),
        )
        for share, rounds in zip((0.0, 0.1, 0.2, 0.5, 1.0), column, strict=True)
    ),
    *(
        Cell("5-3", network, 0.04, 100, rounds, TARGETS[network], passes, 0.1)
        for network, column in (("2NN", (99, 59, 40)), ("LeNet-5", (28, 22, 20)))
        for passes, rounds in zip((5, 10, 20), column, strict=True)
    ),
    *(
        Cell(table, "LeNet-5", 0.02, batch, rounds, 0.98, passes, share, sharded)
        for passes, batch, *rounds_of in (
            (1, 600, 2941, 2872, 1466),
            (5, 600, 750, 1474, 641),
            (1, 50, 319, 1211, 507),
            (20, 600, 268, 748, 391),
            (1, 10, 109, 701, 187),
            (5, 50, 101, 667, 202),
            (20, 50, 95, 508, 160),
            (5, 10, 42, 523, 150),
        )
        for (table, share, sharded), rounds in zip(
            (("5-4", 0.0, False), ("5-4", 0.0, True), ("5-5", 0.1, True)), rounds_of, strict=True
        )
    ),
    *(
        Cell("5-5", "LeNet-5", 0.02, 10, None, 0.98, 1, share, sharded=True, method=method)
        for method, share in (("q-fedavg", 0.1), ("dgc", 1.0), ("selective", 0.0))
    ),
]
SHORT = ("5-1 2NN C=0,E=5,B=10,", "5-1 2NN central,E=1,B=10,", "5-2 2NN C=0,E=5,B=10,", "5-2 2NN C=0.1,E=5,B=10,")
SMOKE = ("5-1 2NN central,E=1,B=10,eta=0.04", "5-2 2NN C=0.1,E=5,B=10,", "5-5-q-fedavg", "5-5-dgc", "5-5-selective")


def algorithm(cell: Cell, federation: Federation) -> Advance:
    """What a round of the cell does."""
    plan = Plan(cell.rate, cell.batch, cell.passes)
    match cell.method:
        case "q-fedavg":
            return q_fedavg(federation, plan, q=1.0)
        case "dgc":
            return dgc(federation, plan, dense=False)
        case "selective":
            return selective(federation, plan, theta=0.1)
        case _:
            return averaging(federation, plan)


def run_cell(cell: Cell, request: Request) -> Played:
    """Train until the target, at most twice the printed number of rounds."""
    data = mnist_or_generated(request.data, smoke=request.form.value == "smoke")
    rng, among = np.random.default_rng([SEED, 7]), request.pick(10, CLIENTS, CLIENTS)
    split = shards(data.train.y, among, 2, rng) if cell.sharded else iid(len(data.train), among, rng)
    parts = [np.arange(len(data.train))] if cell.share is None else split
    network = two_nn() if cell.network == "2NN" else lenet_5()
    federation = Federation(network, [data.train.at(part) for part in parts], data.test)
    scale = CLIENTS / cell.passes if cell.table == "5-1" and cell.share is not None else 1.0
    most = request.pick(2, *(round(2 * (cell.printed or 500) * scale + 20),) * 2)
    cohort = max(1, round((cell.share or 0) * len(parts)))
    clients = len(parts)
    select = None if cell.share else lambda number, _: [number % clients]
    return play(federation, algorithm(cell, federation), SEED, most, cohort, select=select, until=cell.target)


def run(request: Request) -> list[Row]:
    """Every cell of the form beside the printed one."""
    wanted = request.pick(SMOKE, SHORT, ("",))
    rows = []
    for cell in CELLS:
        if not cell.name.startswith(wanted) or request.only not in cell.name:
            continue
        points = run_cell(cell, request).points
        count, last = len(points) - 1, points[-1][1]
        epochs = cell.table == "5-1"
        figure = count * cell.passes / CLIENTS if epochs and cell.share is not None else float(count)
        missed = "" if last >= cell.target else f"{cell.name}: {last:.3f} when it was stopped, not {cell.target:g}."
        every = -(-count // 100)
        curve = [(float(at), y) for at, (_, y) in enumerate(points) if at % every == 0]
        drawn = {cell.name: curve} if cell.table in ("5-2", "5-4", "5-5") else {}
        measure = f"{'epochs' if epochs else 'rounds'} to {cell.target:g}"
        made = row(
            request, cell.name, [figure], seeds=[SEED], printed=cell.printed, measure=measure, curves=drawn, note=missed
        )
        rows.append(made)
    return rows


main = page_command("thesis", run)
if __name__ == "__main__":
    main()
