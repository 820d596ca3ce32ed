"""The thesis' tables 5-1 to 5-5: FedSGD and FedAvg on MNIST, 2NN and LeNet-5, IID and in shards of two classes.

100 clients of 600 images; the same random start for all cells. "FedSGD" is here, as in the thesis, one client a round,
in turn; FedAvg averages C x 100 clients of E passes in batches of B. Each cell counts until the test accuracy first
passes a target: epochs in table 5-1 (rounds x E / 100 where distributed), rounds elsewhere. A cell that does not pass
it in half more rounds than the thesis is stopped there. Figures 5-2, 5-3 and 5-5 are the curves.

The thesis runs neither q-FedAvg, DGC nor Selective SGD, which it names as what comes next: they stand on the cells of
table 5-5. DGC takes one step a round of every client, so that E says nothing; Selective SGD takes one client a round.

The long form takes the cheap cells first: many hours of a core for all, so ``python -m nightjar.experiments --page
thesis --form long --record --resume`` goes on where it was stopped. With ``--jax`` a round's clients train at once, on
a GPU if there is one (:mod:`nightjar.experiments.jax_networks`): 61 cells took an H200 ten minutes, as twenty
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nightjar.experiments.catalogue.dgc import dgc
from nightjar.experiments.catalogue.q_fedavg import q_fedavg
from nightjar.experiments.catalogue.selective_sgd import selective
from nightjar.experiments.data_sets import iid, mnist_or_generated, shards
from nightjar.experiments.engine import Advance, ClientPlan, Federation, Played, averaging, play
from nightjar.experiments.frame import Form, Request, ResultRow, page_command, row
from nightjar.experiments.networks import Classifier, lenet_5, two_nn
from nightjar.experiments.thesis_cells import CELLS, CLIENTS, TableCell
from nightjar.simulation.laboratory.optional_jax import needing_jax

Networks = Mapping[str, Callable[[], Classifier]]
NUMPY_AND_TENSORFLOW: Networks = {"2NN": two_nn, "LeNet-5": lenet_5}
SEED = 1
SHORT = ("5-1 2NN C=0,E=5,B=10,", "5-1 2NN central,E=1,B=10,", "5-2 2NN C=0,E=5,B=10,", "5-2 2NN C=0.1,E=5,B=10,")
SMOKE = (
    "5-1 2NN central,E=1,B=10,eta=0.04",
    "5-2 2NN C=0.1,E=5,B=10,",
    *(
        f"5-5-{method} LeNet-5-shards C={share},E=1,B=10,"
        for method, share in (("q-fedavg", 0.1), ("dgc", 1), ("selective", 0))
    ),
)
"""Beginnings of the names of the cells of these forms, behind ``thesis``."""


def algorithm(cell: TableCell, federation: Federation) -> Advance:
    """What a round of the cell does."""
    plan = ClientPlan(cell.rate, cell.batch, cell.passes)
    match cell.method:
        case "q-fedavg":
            return q_fedavg(federation, plan, q=1.0)
        case "dgc":
            return dgc(federation, plan, dense=False)
        case "selective":
            return selective(federation, plan, theta=0.1)
        case _:
            return averaging(federation, plan)


def run_cell(cell: TableCell, request: Request) -> Played:
    """Train until the target, or the most rounds."""
    data = mnist_or_generated(request.data, smoke=request.form is Form.SMOKE)
    rng, among = np.random.default_rng([SEED, 7]), request.pick(10, CLIENTS, CLIENTS)
    split = shards(data.train.y, among, 2, rng) if cell.sharded else iid(len(data.train), among, rng)
    parts = [np.arange(len(data.train))] if cell.share is None else split
    clients, test = [data.train.at(part) for part in parts], data.test
    networks = NUMPY_AND_TENSORFLOW
    if request.jax:
        in_jax = needing_jax("nightjar.experiments.jax_networks")
        networks = {"2NN": in_jax.two_nn, "LeNet-5": in_jax.lenet_5}
        clients, test = [in_jax.on_device(each) for each in clients], in_jax.on_device(test)
    federation = Federation(networks[cell.network](), clients, test)
    most = request.pick(2, cell.most, cell.most)
    cohort = max(1, round((cell.share or 0) * len(parts)))
    select = None if cell.share else lambda number, _: [number % len(parts)]
    return play(federation, algorithm(cell, federation), SEED, most, cohort, select=select, until=cell.target)


def run(request: Request) -> Iterator[ResultRow]:
    """Every cell of the form beside the printed one, the cheap ones first."""
    wanted = request.pick(SMOKE, SHORT, ("",))
    for cell in sorted(CELLS, key=lambda each: each.work):
        if (
            not cell.name.removeprefix("thesis ").startswith(wanted)
            or request.only not in cell.name
            or cell.name in request.done
        ):
            continue
        points = run_cell(cell, request).points
        last = points[-1][1]
        every = -(-len(points) // 100)
        curve = [(float(at), y) for at, (_, y) in enumerate(points) if at % every == 0]
        yield row(
            request,
            cell.name,
            [(len(points) - 1) * cell.in_epochs],
            seeds=[SEED],
            printed=cell.printed,
            bound=last < cell.target,
            alone=True,
            measure=f"{'epochs' if cell.table == '5-1' else 'rounds'} to {cell.target:g}",
            figures={"accuracy at the end": last},
            curves={cell.name.split()[-1]: curve} if cell.table in ("5-2", "5-4", "5-5") else {},
        )


main = page_command("thesis", run)
if __name__ == "__main__":
    main()
