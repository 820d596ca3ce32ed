"""Which words were typed: an attack on an update, or on the difference of two versions. Pure.

The gradient of a word's embedding is large if the word was typed, and points along the states that came before it. The
attacker trains people whose text it has, the shadows, in cohorts of the same size, and fits a logistic regression of
"was typed" on four features of each word's row::

    log |row|,   row . direction,   row is zero,   log frequency in public text

``direction`` is the first right singular vector of all rows. It names the words above the threshold that is
best on the shadows (F1). Where there is nothing to see, only the frequency is left.

Sources: Shokri et al. 2017, "Membership Inference Attacks Against Machine Learning Models", for shadows; Melis et al.
2019, "Exploiting Unintended Feature Leakage in Collaborative Learning", section 4.1, for the embedding's leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
FLOOR = 1e-4
"""Smallest share of the largest norm that is told from zero."""
RIDGE, STEPS = 1.0, 15


def features(rows: npt.NDArray[np.float32], log_frequency: Floats) -> Floats:
    """The features of each word, (V, 4) float64, each with mean 0 and deviation 1 over the words; a constant one is 0.

    The rows, (V, D) float32, are the observed change of the embedding; frequencies, (V,), are those in public text.
    """
    seen = rows.astype(np.float64)
    norms = np.linalg.norm(seen, axis=1)
    largest = float(norms.max()) or 1.0
    direction = np.linalg.eigh(seen.T @ seen)[1][:, -1]
    along = seen @ direction
    along *= np.sign((along**3).sum()) or 1.0
    found = np.stack(
        [np.log(norms / largest + FLOOR), along / largest, (norms == 0).astype(np.float64), log_frequency], axis=1
    )
    spread = found.std(axis=0)
    scaled: Floats = (found - found.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


@dataclass(frozen=True, slots=True, eq=False)
class WordAttack:
    """A fitted attack: names the words whose score is at least the threshold."""

    weights: Floats  # (F + 1,) float64, the last is the intercept
    threshold: float

    def named(self, found: Floats) -> Flags:
        """The words that the attack names, (V,), from their features (V, F)."""
        scores = found @ self.weights[:-1] + self.weights[-1]
        named: Flags = scores >= self.threshold
        return named


def fit(found: Sequence[Floats], typed: Sequence[Flags]) -> WordAttack:
    """Fit the attack on shadows by Newton's method.

    Of each shadow cohort, there are features (V, F), and whether each word was typed in it, (V,).
    """
    x, y = np.concatenate(found), np.concatenate(typed).astype(np.float64)
    x = np.column_stack([x, np.ones(len(x))])
    weights = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(len(weights))
        weights += np.linalg.solve(hessian, x.T @ (y - p) - RIDGE * weights)
    return WordAttack(weights, best_threshold(x @ weights, y > 0))


def best_threshold(scores: Floats, typed: Flags) -> float:
    """The score from which on naming words has the best F1.

    >>> best_threshold(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, True, False, False]))
    2.0
    """
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(typed[order])
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + max(1, int(typed.sum())))
    return float(scores[order[int(f1.argmax())]])


def precision_and_recall(named: Flags, typed: Flags) -> tuple[float, float]:
    """Shares of the named words that were typed, and of the typed ones that were named.

    >>> precision_and_recall(np.array([True, True, False]), np.array([True, False, True]))
    (0.5, 0.5)
    """
    hits = int((named & typed).sum())
    return hits / max(1, int(named.sum())), hits / max(1, int(typed.sum()))


def commonest(count: int, size: int) -> Flags:
    """The guess that needs no observation: the commonest words, which have the lowest ids.

    >>> commonest(2, 4).tolist()
    [True, True, False, False]
    """
    return np.arange(size) < count
