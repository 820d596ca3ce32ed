"""How much one sample of vectors tells about another (Szekely, Rizzo and Bakirov 2007)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nightjar.experiments.data_sets import Floats


def distance_correlation(x: Floats, z: Floats) -> float:
    """0 for independent samples, 1 for those that are equal but for scale and rotation.

    Args:
        x: (n, a).
        z: (n, b).
    """
    a, b = (_centred_distances(each.astype(np.float64)) for each in (x, z))
    return float(np.sqrt((a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean())))


def _centred_distances(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    squares = (x**2).sum(axis=1)
    d = np.sqrt(np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0))
    return np.asarray(d - d.mean(axis=0) - d.mean(axis=1, keepdims=True) + d.mean())
