"""The rank of a word among all words: how many would be suggested before it.

Equal scores are ranked by word id, the lower and therefore commoner word first, as the keyboard shows them. Every
recall uses this rule, so a figure counts the words that a person would see. A score that is not a number ranks before
all others, so it counts against the model. :func:`nightjar.models.lstm.ranks` is the same rule in TensorFlow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def ranks(scores: npt.NDArray[np.floating[Any]], targets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Ranks of the target words, 0 for the best.

    >>> ranks(np.float32([[1, 3, 3, 0], [1, 3, 3, 0], [1, np.nan, 3, 0]]), np.array([2, 1, 2])).tolist()
    [1, 0, 1]

    Args:
        scores: (n, W), of each word in each place; without the special tokens.
        targets: (n,) int64, index of the word that was typed in each place.

    Returns:
        (n,) int64.
    """
    own: npt.NDArray[np.floating[Any]] = np.take_along_axis(scores, targets[:, None], axis=1)
    before = ~(scores <= own) | ((scores == own) & (np.arange(scores.shape[1]) < targets[:, None]))
    counted: npt.NDArray[np.int64] = before.sum(axis=1)
    return counted
