"""The slides' FedAvg on a fifth of CIFAR-10 with a ResNet, beside central training and a single client.

ResNet-8 with group norm on 10,000 images to train on and 2,000 to test on: what two processors can
train; any folder of the same form works. The slides cut the images among clients in the order of the file, which is
random; a folder is sorted by class, so the images are dealt at random here. Nothing is augmented. Expected by the
slides, without figures: single client below federated, federated at most central, larger cohorts better.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.data_sets import DataSet, Examples, cifar10, iid
from nightjar.experiments.engine import ClientPlan, Federation, Played, averaging, play
from nightjar.experiments.frame import Request, ResultRow, averaged, page_command, row
from nightjar.experiments.networks import resnet_8

CLIENTS = 10
COHORTS = (10, 5, 2)
PLAN = ClientPlan(rate=0.05, batch=50)


def _made_up() -> DataSet:
    rng = np.random.default_rng(1)
    x, y = rng.random((60, 32, 32, 3), np.float32), rng.integers(0, 10, 60)
    return DataSet(Examples(x[:40], y[:40]), Examples(x[40:], y[40:]), 10)


def trained(data: DataSet, parts: list[Examples], cohort: int, rounds: int, seed: int) -> Played:
    """So many rounds of one pass of each client."""
    federation = Federation(resnet_8(), parts, data.test)
    return play(federation, averaging(federation, PLAN), seed, rounds, cohort)


def run(request: Request) -> list[ResultRow]:
    """Accuracy after equally many rounds; a pass over all images in one place counts as a round."""
    data = _made_up() if request.form.value == "smoke" else cifar10(request.data)
    return averaged(_of_seed(request, data, seed) for seed in request.pick((1,), (1,), (1, 2, 3)))


def _of_seed(request: Request, data: DataSet, seed: int) -> list[ResultRow]:
    rounds, cohorts = request.pick((1, COHORTS[:1]), (2, COHORTS[:1]), (12, COHORTS))
    parts = [data.train.at(part) for part in iid(len(data.train), CLIENTS, np.random.default_rng([seed, 7]))]
    central = trained(data, [data.train], 1, rounds, seed)
    single = trained(data, parts[:1], 1, rounds, seed)
    rows = []
    for cohort in cohorts:
        played = trained(data, parts, cohort, rounds, seed)
        curves = {f"{cohort} of {CLIENTS}": played.points, "central": central.points, "single client": single.points}
        made = row(
            request,
            f"ResNet-8 on CIFAR-10, {cohort} of {CLIENTS} clients, {rounds} rounds",
            [played.last],
            seeds=[seed],
            pooled=central.last,
            figures={"single client": single.last},
            curves=curves,
        )
        rows.append(made)
    return rows


main = page_command("cifar", run)
if __name__ == "__main__":
    main()
