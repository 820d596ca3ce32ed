"""Ridge regression by gradient descent in one place: what :mod:`nightjar.experiments.vertical_linear` must equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Descent:
    """Settings that all three know.

    Attributes:
        steps: of gradient descent.
        rate: of each.
        penalty: of ridge regression, in units of the mean square error.
        key_bits: of n; 2048 is the least that is secure, less is for tests.
    """

    steps: int = 60
    rate: float = 0.5
    penalty: float = 0.0
    key_bits: int = 2048


class Regression(NamedTuple):
    """What A and B hold: rows by the names of people, who are in no order and not all the same."""

    people_a: list[str]
    x_a: Matrix
    people_b: list[str]
    x_b: Matrix
    y: Matrix


def diabetes(people: int, seed: int) -> Regression:
    """The diabetes data of scikit-learn: A has age, sex, body mass and pressure, B three serum values and the outcome.

    Each of the two knows nine tenths of the people.
    """
    from sklearn.datasets import load_diabetes  # takes a second, which the processes of parties need not

    x, y = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(seed)
    a, b = (rng.permutation(people)[: people * 9 // 10] for _ in range(2))
    return Regression(
        [f"person {row}" for row in a], x[a][:, :4], [f"person {row}" for row in b], x[b][:, [6, 8, 9]], y[b]
    )


def pooled(problem: Regression) -> tuple[Matrix, Matrix]:
    """Columns (n, 7), standardised, and labels (n,) of the people that both know, in one place."""
    row_of = {name: row for row, name in enumerate(problem.people_a)}
    both = [(row_of[name], row) for row, name in enumerate(problem.people_b) if name in row_of]
    rows_a, rows_b = (list(rows) for rows in zip(*both, strict=True))
    return np.hstack([standardised(problem.x_a[rows_a]), standardised(problem.x_b[rows_b])]), problem.y[rows_b]


def pooled_descent(x: Matrix, y: Matrix, at: Descent) -> Matrix:
    """The same descent in one place, in float64."""
    theta = np.zeros(x.shape[1])
    for _ in range(at.steps):
        theta = theta - at.rate * ((x @ theta - (y - y.mean())) @ x / len(x) + at.penalty * theta)
    return theta


def standardised(x: Matrix) -> Matrix:
    """Columns with mean 0 and deviation 1."""
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0))
