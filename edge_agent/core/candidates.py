"""Candidates of a sampled softmax: every target of a batch, and words drawn by chance to stand for the rest.

Words are drawn independently (Poisson sampling), a commoner one with a larger probability: the vocabulary is ordered by
frequency, so the log-uniform law of its ranks is close to the frequencies themselves (Zipf). A word that was drawn with
probability q stands for 1 / q such words, for which its logit is corrected in the graph.

Source: Jean et al. 2015, "On using very large target vocabulary for neural machine translation", section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edge_agent.ports import Floats, Ids
from models.vocabulary import EOS, FIRST_WORD, OOV, PAD

Reals = npt.NDArray[np.float64]

NO_PART = np.float32(60.0)
"""The log inclusion of an unused place: e to the minus 60 is nothing in a softmax."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What the softmax of one batch is over.

    Attributes:
        ids: (S,) int32, ``PAD`` at 0 and in unused places.
        log_inclusion: (S,) float32, log of the probability with which each was drawn.
        places: (B, T) int32, where each target stands in ``ids``; 0 is no target.
    """

    ids: Ids
    log_inclusion: Floats
    places: Ids


class Urn:
    """Draws candidates for one vocabulary.

    Args:
        vocabulary_size: V.
        size: S, number of candidates; more than a batch has targets.
        positions: B * T, the most different targets that a batch can have.
    """

    def __init__(self, vocabulary_size: int, size: int, positions: int) -> None:
        self._size = size
        rank = np.arange(1, vocabulary_size - FIRST_WORD + 1, dtype=np.float64)
        law = np.log1p(1.0 / rank)
        # The specials that can be targets are as common as the commonest word.
        law = np.concatenate([np.zeros(FIRST_WORD), law])
        law[[EOS, OOV]] = law[FIRST_WORD:].max()
        # Room for the targets, and for three standard deviations of the number that is drawn.
        room = max(0.0, size - 1 - min(positions, vocabulary_size))
        wanted = max(0.0, room - 3.0 * np.sqrt(room))
        self._inclusion = _scaled_to(law, wanted)

    def draw(self, y: Ids, generator: np.random.Generator) -> Candidates:
        """Candidates for the targets y (B, T)."""
        targets, places = np.unique(y, return_inverse=True)
        places = places.reshape(y.shape)
        if targets[0] != PAD:
            targets, places = np.concatenate([[PAD], targets]), places + 1
        drawn = np.flatnonzero(generator.random(len(self._inclusion)) < self._inclusion)
        drawn = np.setdiff1d(drawn, targets, assume_unique=True)[: self._size - len(targets)]
        ids = np.full(self._size, PAD, np.int32)
        log_inclusion = np.full(self._size, NO_PART, np.float32)
        used = len(targets) + len(drawn)
        ids[: len(targets)], ids[len(targets) : used] = targets, drawn
        log_inclusion[1 : len(targets)] = 0.0
        log_inclusion[len(targets) : used] = np.log(self._inclusion[drawn])
        return Candidates(ids, log_inclusion, places.astype(np.int32))


def _scaled_to(
    law: np.ndarray[tuple[int], np.dtype[np.float64]], wanted: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Probabilities min(1, a * law) that sum to ``wanted``, or 1 for all that may be drawn if there are no more."""
    possible = law > 0
    if wanted >= np.count_nonzero(possible):
        return possible.astype(np.float64)
    low, high = 0.0, float(wanted / law[possible].min())
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.minimum(1.0, middle * law).sum() < wanted:
            low = middle
        else:
            high = middle
    return np.minimum(1.0, low * law)
