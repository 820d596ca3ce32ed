"""Reads IDX files, the form of MNIST: 2 zero bytes, type 8, dimensions, each size as big-endian 32 bits, bytes.

Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nightjar.wire.errors import ConfigError

TRAIN, TEST = "train", "t10k"
"""The two parts of MNIST and of sets of its form."""


def read_part(folder: Path, part: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Images and labels of a part: x (n, rows, columns) float32, 0 to 1; y (n,) int64.

    The folder has ``PART-images-idx3-ubyte`` and ``PART-labels-idx1-ubyte``, or the same with ``.gz``.

    Raises:
        ConfigError: a file is missing or no IDX file, or their numbers differ.
    """
    images, labels = (read_idx(folder / f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        msg = f"{folder}: expected an image for each label of {part!r}, got {images.shape} and {labels.shape}"
        raise ConfigError(msg)
    return np.divide(images, 255, dtype=np.float32), labels.astype(np.int64)


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """An array of bytes from a file, or from the same file with ``.gz``.

    Raises:
        ConfigError: the file is missing, or is no IDX file of bytes.
    """
    packed = path.with_name(path.name + ".gz")
    try:
        data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    except (OSError, EOFError) as error:
        msg = f"{path} cannot be read: {error}"
        raise ConfigError(msg) from error
    dimensions = data[3] if data[:3] == b"\x00\x00\x08" else 0
    start = 4 + 4 * dimensions
    shape = np.frombuffer(data[4:start], ">u4").tolist() if dimensions and len(data) >= start else []
    if not shape or len(data) != start + int(np.prod(shape, dtype=object)):
        msg = f"{path} is no IDX file of bytes"
        raise ConfigError(msg)
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
