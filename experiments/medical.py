"""Two hospitals: segmentation by a U-Net and detection by a ConvLSTM, federated beside central.

The book's chapter 22 has real scans and loses its tables. The images here are **generated**: bright, blurred discs are
lesions, in noise, and the two hospitals' scanners differ in brightness and noise. Figures say how federated and central
training compare on such pictures, and nothing of medicine. Real slices of the same form work: ``DATA/medical`` with
``a.npz``, ``b.npz`` and ``test.npz``, each with images (n, 32, 32) in 0 to 1 and masks (n, 32, 32) of 0 and 1.

Measured are Dice's coefficient of the masks and the area under the ROC curve, of each hospital alone, of both pooled,
and of FedAvg by rounds; all train as many epochs.

    python -m nightjar.experiments.medical --form short --out build/medical --json
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import keras
import numpy as np
from sklearn.metrics import roc_auc_score

from nightjar.experiments.frame import Request, ResultRow, averaged, page_command, row
from nightjar.experiments.keras_networks import Array, Network, average, conv_lstm, fit, unet
from nightjar.wire.errors import ConfigError

SIDE, SLICES, RATE = 32, 6, 0.003
NOTE = (
    "the book finds FedAvg as good as central training after 5 rounds of 50 epochs on real scans; images here are "
    "generated, rounds and epochs fewer, the scanners unlike each other, and Adam begins anew in each round"
)


class Scans(NamedTuple):
    """Images (n, ..., 1) and what is to be found: masks of the same shape, or (n, 1) of 0 and 1."""

    x: Array
    y: Array


Score = Callable[[Network, Scans], float]


def slices(count: int, brightness: float, noise: float, rng: np.random.Generator) -> Scans:
    """Generated slices with none to two lesions each, and their masks."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    x = np.zeros((count, SIDE, SIDE))
    masks = np.zeros((count, SIDE, SIDE), np.float32)
    for number in range(count):
        for _ in range(rng.integers(0, 3)):
            (row_, column), radius = rng.uniform(5, SIDE - 5, 2), rng.uniform(2, 5)
            distance = np.hypot(rows - row_, columns - column)
            x[number] += 0.4 / (1 + np.exp(distance - radius))
            masks[number][distance < radius] = 1
    x = np.clip(brightness + x + rng.normal(0, noise, x.shape), 0, 1)
    return Scans(x[..., None].astype(np.float32), masks[..., None])


def volumes(count: int, brightness: float, noise: float, rng: np.random.Generator) -> Scans:
    """Generated volumes, half of them with a lesion that goes through two or more slices."""
    sick = np.arange(count) % 2
    x = np.clip(brightness + rng.normal(0, noise, (count, SLICES, 16, 16)), 0, 1)
    rows, columns = np.mgrid[:16, :16]
    for number in np.flatnonzero(sick):
        begin, (row_, column), radius = rng.integers(0, SLICES - 2), rng.uniform(4, 12, 2), rng.uniform(2, 4)
        x[number, begin : begin + 3] += 0.25 / (1 + np.exp(np.hypot(rows - row_, columns - column) - radius))
    return Scans(np.clip(x, 0, 1)[..., None].astype(np.float32), sick[:, None].astype(np.float32))


def dice(network: Network, scans: Scans) -> float:
    """Twice what masks have in common, by what both have."""
    found = network.predict(scans.x, 64, verbose=0) > 0
    return float(2 * (found * scans.y).sum() / max(1.0, found.sum() + scans.y.sum()))


def auc(network: Network, scans: Scans) -> float:
    """Area under the ROC curve."""
    return float(roc_auc_score(scans.y.ravel(), network.predict(scans.x, 64, verbose=0).ravel()))


def dice_loss(y: Array, logits: Array) -> Array:
    """One minus the soft coefficient of Dice, and the cross-entropy, which has slopes where no lesion is found yet."""
    p = keras.ops.sigmoid(logits)
    soft = (2 * keras.ops.sum(y * p) + 1) / (keras.ops.sum(y + p) + 1)
    return cast(Array, 1 - soft + keras.ops.mean(cross_entropy(y, logits)))


def cross_entropy(y: Array, logits: Array) -> Array:
    """Of each logit."""
    return cast(Array, keras.ops.binary_crossentropy(y, logits, from_logits=True))


def compared(
    request: Request,
    name: str,
    make: Callable[[], Network],
    hospitals: Sequence[Scans],
    test: Scans,
    loss: Callable[[Array, Array], Array],
    score: Score,
    seed: int,
) -> ResultRow:
    """A task, by each hospital alone, both pooled, and federated."""
    rounds, epochs = request.pick((1, 1), (5, 4), (10, 20))
    keras.utils.set_random_seed(seed)
    network = make()
    network.compile(keras.optimizers.Adam(RATE), loss)
    start = network.get_weights()

    def alone(scans: Scans) -> float:
        network.set_weights(start)
        fit(network, scans.x, scans.y, rounds * epochs, seed)
        return score(network, test)

    figures = {f"hospital {letter} alone": alone(scans) for letter, scans in zip("ab", hospitals, strict=True)}
    pooled = alone(Scans(*(np.concatenate(part) for part in zip(*hospitals, strict=True))))
    weights, curve = start, []
    for number in range(rounds):
        local = []
        for place, scans in enumerate(hospitals):
            network.set_weights(weights)
            fit(network, scans.x, scans.y, epochs, seed + 100 * number + place)
            local.append(network.get_weights())
        weights = average(local, [len(scans.x) for scans in hospitals])
        network.set_weights(weights)
        curve.append((number + 1.0, score(network, test)))
    measure = score.__name__
    return row(
        request,
        name,
        [curve[-1][1]],
        seeds=[seed],
        pooled=pooled,
        measure=measure,
        figures=figures,
        curves={name: curve},
        axes=("round", measure),
        note=NOTE,
    )


def _read(request: Request) -> tuple[list[Scans], Scans] | None:
    if request.data is None or not (request.data / "medical").is_dir():
        return None
    found = []
    for part in ("a", "b", "test"):
        path = request.data / "medical" / f"{part}.npz"
        try:
            with np.load(path, allow_pickle=False) as arrays:
                found.append(Scans(*(arrays[key][..., None].astype(np.float32) for key in ("images", "masks"))))
        except (OSError, KeyError, ValueError) as error:
            msg = f"expected images and masks in {path}: {error}"
            raise ConfigError(msg) from error
    return found[:2], found[2]


def run(request: Request) -> list[ResultRow]:
    """Segmentation and detection of two hospitals, on generated lesions."""
    read = _read(request)
    return averaged(_of_seed(request, read, seed) for seed in request.pick((1,), (1,), (1, 2, 3)))


def _of_seed(request: Request, read: tuple[list[Scans], Scans] | None, seed: int) -> list[ResultRow]:
    rng, count = np.random.default_rng(seed), request.pick(16, 120, 600)
    scanners = ((0.2, 0.12), (0.4, 0.2))
    kind = "read" if read else "generated"
    hospitals, test = read or (
        [slices(count, *each, rng) for each in scanners],
        _both(slices, count // 2, scanners, rng),
    )
    rows = [compared(request, f"U-Net, {kind} slices", lambda: unet(SIDE), hospitals, test, dice_loss, dice, seed)]
    hospitals, test = [volumes(count, *each, rng) for each in scanners], _both(volumes, count // 2, scanners, rng)
    make = lambda: conv_lstm(SLICES, 16)  # noqa: E731 one line is enough
    return [*rows, compared(request, "ConvLSTM, generated volumes", make, hospitals, test, cross_entropy, auc, seed)]


def _both(
    make: Callable[[int, float, float, np.random.Generator], Scans],
    count: int,
    scanners: Sequence[tuple[float, float]],
    rng: np.random.Generator,
) -> Scans:
    parts = [make(count, *each, rng) for each in scanners]
    return Scans(*(np.concatenate(part) for part in zip(*parts, strict=True)))


main = page_command("medical", run)

if __name__ == "__main__":
    main()
