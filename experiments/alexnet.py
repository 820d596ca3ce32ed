"""AlexNet's layers for 28 x 28 pixels on Fashion-MNIST, with a constant and a cosine rate.

The survey trains AlexNet on images scaled up to 224 pixels, with 46.8 million parameters; this form has 0.45 million,
which two cores can train, and the short one a tenth of the images with an eighth of the batch, so accuracies need not
agree. The cosine is the one that fits its printed rates: ``.01 + .5 (.1 - .01) (1 + cos(pi t / 10))`` in epoch t. A
third run is federated: five devices, one epoch a round. Smoke forms use generated images; others need
``DATA/fashion-mnist`` (Debian's ``dataset-fashion-mnist``).

    python -m nightjar.experiments.alexnet --form short --data DATA --out build/alexnet --json
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from nightjar.experiments.data_sets import DataSet, Examples, generated, iid, mnist
from nightjar.experiments.frame import Request, ResultRow, page_command, row
from nightjar.experiments.keras_networks import Array, Network, alexnet, average

SIDE, DEVICES = 28, 5
STOP = 0.92
"""Training accuracy at which the survey stops."""
NOTE = "the survey has 46.8 million parameters, 60,000 images and, until it stops, 27 and 8 epochs"


def constant(_epoch: int) -> float:
    """The rate of the first two runs."""
    return 0.01


def cosine(epoch: int) -> float:
    """The rate of the third.

    >>> [round(cosine(epoch), 4) for epoch in range(8)]
    [0.1, 0.0978, 0.0914, 0.0815, 0.0689, 0.055, 0.0411, 0.0285]
    """
    return 0.01 + 0.5 * (0.1 - 0.01) * (1 + math.cos(math.pi * epoch / 10))


class Curves(NamedTuple):
    """(epoch, accuracy) after each epoch; of training with dropout, as the survey measures it."""

    train: list[tuple[float, float]]
    test: list[tuple[float, float]]


def _images(examples: Examples, most: int) -> tuple[Array, Array]:
    return examples.x[:most].reshape(-1, SIDE, SIDE, 1), examples.y[:most]


def _compiled(seed: int, classes: int) -> Network:
    keras.utils.set_random_seed(seed)
    network = alexnet(SIDE, classes)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.SGD(0.01), loss, metrics=["accuracy"])
    return network


def _accuracy(network: Network, x: Array, y: Array) -> float:
    return float((network.predict(x, 500, verbose=0).argmax(axis=1) == y).mean())


def trained(data: DataSet, rate: Callable[[int], float], epochs: int, most: int, batch: int, seed: int) -> Curves:
    """Train until the training accuracy passes STOP, or for all epochs."""
    network, curves = _compiled(seed, data.classes), Curves([], [])
    x, y = _images(data.train, most)
    for epoch in range(epochs):
        network.optimizer.learning_rate = rate(epoch)
        history = network.fit(x, y, batch, verbose=0).history
        curves.train.append((epoch + 1, float(history["accuracy"][0])))
        curves.test.append((epoch + 1, _accuracy(network, *_images(data.test, most))))
        if curves.train[-1][1] > STOP:
            break
    return curves


def federated(data: DataSet, epochs: int, most: int, batch: int, seed: int) -> Curves:
    """FedAvg of devices with equal random parts, one epoch at the constant rate in each round."""
    network, curves = _compiled(seed, data.classes), Curves([], [])
    x, y = _images(data.train, most)
    parts = iid(len(y), DEVICES, np.random.default_rng(seed))
    weights = network.get_weights()
    for number in range(epochs):
        local = []
        for part in parts:
            network.set_weights(weights)
            network.fit(x[part], y[part], batch, verbose=0)
            local.append(network.get_weights())
        weights = average(local, [len(part) for part in parts])
        network.set_weights(weights)
        curves.test.append((number + 1, _accuracy(network, *_images(data.test, most))))
    return curves


def run(request: Request) -> list[ResultRow]:
    """AlexNet's layers on Fashion-MNIST: constant rate, cosine rate, and federated."""
    smoke = generated(1, 200, 100)
    data = smoke if request.form.value == "smoke" else mnist(request.data, "fashion-mnist")
    most, epochs, batch = request.pick((200, 1, 16), (6000, 6, 16), (60_000, 40, 128))
    seeds = [1]
    made = {
        "constant rate": (trained(data, constant, epochs, most, batch, seeds[0]), 0.918),
        "cosine rate": (trained(data, cosine, epochs, most, batch, seeds[0]), 0.918),
        f"federated, {DEVICES} devices, constant rate": (federated(data, epochs, most, batch, seeds[0]), None),
    }
    pooled = made["constant rate"][0].test[-1][1]
    return [
        row(
            request,
            f"AlexNet's layers, {name}",
            [curves.test[-1][1]],
            seeds=seeds,
            printed=printed,
            pooled=None if printed else pooled,
            figures={
                "images": float(min(most, len(data.train))),
                "epochs": float(len(curves.test)),
                **({"training accuracy": curves.train[-1][1]} if curves.train else {}),
            },
            curves={name: curves.test},
            axes=("epoch", "accuracy"),
            note=NOTE,
        )
        for name, (curves, printed) in made.items()
    ]


main = page_command("alexnet", run)

if __name__ == "__main__":
    main()
