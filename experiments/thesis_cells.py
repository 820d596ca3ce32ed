"""The cells of the thesis' tables 5-1 to 5-5, with the figures that it prints.

In table 5-3 the heads of the small-batch columns are lost: B = 100 remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CLIENTS = 100
TARGETS = {"2NN": 0.97, "LeNet-5": 0.99}
LENET_5_ROUNDS = (
    (1, 600, 2941, 2872, 1466),
    (5, 600, 750, 1474, 641),
    (1, 50, 319, 1211, 507),
    (20, 600, 268, 748, 391),
    (1, 10, 109, 701, 187),
    (5, 50, 101, 667, 202),
    (20, 50, 95, 508, 160),
    (5, 10, 42, 523, 150),
)
"""E, B, and rounds of FedSGD on IID data (table 5-4), on shards (5-4), and of FedAvg on shards (5-5)."""


@dataclass(frozen=True, slots=True)
class TableCell:
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
        beside: rounds of FedSGD or FedAvg in a cell that it did not run, to stop it.
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
    beside: float = 0.0

    @property
    def name(self) -> str:
        """Table, network, and what differs between the table's cells."""
        how = "central" if self.share is None else f"C={self.share:g}"
        split = "-shards" if self.sharded else ""
        method = "" if self.method == "fedavg" else f"-{self.method}"
        return (
            f"thesis {self.table}{method} {self.network}{split} {how},E={self.passes},B={self.batch},eta={self.rate:g}"
        )

    @property
    def in_epochs(self) -> float:
        """Epochs a round where the table counts epochs; rounds count as such elsewhere."""
        return self.passes / CLIENTS if self.table == "5-1" and self.share is not None else 1.0

    @property
    def most(self) -> int:
        """Rounds, or epochs of central training, after which a run is stopped: half more than printed."""
        return round(1.5 * (self.printed or self.beside) / self.in_epochs + 20)

    @property
    def work(self) -> float:
        """About how long the cell takes as printed, in passes over all images; 20 measurements are a pass."""
        rounds = (self.printed or self.beside) / self.in_epochs
        a_round = 1.0 if self.share is None else max(1, self.share * CLIENTS) * self.passes / CLIENTS
        return rounds * ((self.batch / 600 if self.method == "dgc" else a_round) + 0.05)


def _first_table(network: str, printed: Sequence[tuple[float, str, str]]) -> list[TableCell]:
    return [
        TableCell("5-1", network, rate, batch, float(value), TARGETS[network], 1 if share is None else 5, share)
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
        TableCell("5-2", network, 0.04, batch, rounds, TARGETS[network], share=share)
        for network, batch, column in (
            ("2NN", 10, (107, 28, 34, 38, 35)),
            ("2NN", 100, (288, 99, 99, 101, 102)),
            ("LeNet-5", 10, (236, 82, 51, 49, 38)),
            ("LeNet-5", 100, (724, 80, 90, 114, 134)),
        )
        for share, rounds in zip((0.0, 0.1, 0.2, 0.5, 1.0), column, strict=True)
    ),
    *(
        TableCell("5-3", network, 0.04, 100, rounds, TARGETS[network], passes, 0.1)
        for network, column in (("2NN", (99, 59, 40)), ("LeNet-5", (28, 22, 20)))
        for passes, rounds in zip((5, 10, 20), column, strict=True)
    ),
    *(
        TableCell(table, "LeNet-5", 0.02, batch, rounds, 0.98, passes, share, sharded)
        for passes, batch, *rounds_of in LENET_5_ROUNDS
        for (table, share, sharded), rounds in zip(
            (("5-4", 0.0, False), ("5-4", 0.0, True), ("5-5", 0.1, True)), rounds_of, strict=True
        )
    ),
    *(
        TableCell(
            "5-5", "LeNet-5", 0.02, batch, None, 0.98, passes, share, True, method, fedavg if share == 0.1 else fedsgd
        )
        for method, share in (("q-fedavg", 0.1), ("dgc", 1.0), ("selective", 0.0))
        for passes, batch, _, fedsgd, fedavg in LENET_5_ROUNDS
        if method != "dgc" or passes == 1  # DGC takes one step a round, whatever E
    ),
]
