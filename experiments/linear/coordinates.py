"""Some coordinates as they are: drawn at random, of the commonest words, or the largest of what is known so far."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from nightjar.experiments.codec_study.masks import choose_mask, mask_bytes
from nightjar.experiments.linear.contract import State, SummedRound
from nightjar.wire.codec.sparsify import count_for
from nightjar.wire.parameters import ParameterLayout, Vector

RANDOM_SHARE = 0.2
"""Share of the coordinates drawn at random."""
MEMORY = 0.9


class Choice(enum.Enum):
    """How the coordinates of a round are chosen."""

    RANDOM = "random"
    """A new draw in each round."""
    LAST = "last"
    """The largest of the last update, and a share of random others: the mask codecs of the codec study."""
    MOMENTS = "moments"
    """Those with the largest product of the mean squares of their row and their column (Adafactor), and random ones."""
    WORDS = "words"
    """All of the commonest words' rows, for half of the budget; beyond the embedding, a random draw."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Implements :class:`~nightjar.experiments.linear.contract.Compressor`.

    Attributes:
        share: k / n.
        choice: how they are chosen.
    """

    share: float
    choice: Choice

    def begin(self, layout: ParameterLayout) -> State:
        """Nothing is known."""
        return {"known": np.zeros(layout.size, np.float32)}

    def round(self, state: State, layout: ParameterLayout, rng: np.random.Generator) -> SummedRound:
        """Choose the coordinates; only those that depend on the sums so far are sent."""
        count, known, size = count_for(self.share, layout.size), state["known"], layout.size
        match self.choice:
            case Choice.WORDS:
                embedding = layout.tensors[0]
                first = count // 2 // embedding.shape[1] * embedding.shape[1]
                beyond = rng.choice(np.arange(embedding.size, size), min(count - first, size - embedding.size), False)
                chosen = np.concatenate([np.arange(first), np.sort(beyond)])
            case Choice.RANDOM:
                chosen = choose_mask(None, count, 1.0, size, rng)
            case Choice.LAST:
                chosen = choose_mask(known if known.any() else None, count, RANDOM_SHARE, size, rng)
            case Choice.MOMENTS:
                score = np.concatenate([_factored(known[a:b].reshape(s.shape)) for s, a, b in layout.spans()])
                chosen = choose_mask(score if known.any() else None, count, RANDOM_SHARE, size, rng)

        def decode(values: Vector) -> Vector:
            update = np.zeros(size, np.float32)
            update[chosen] = values
            return update

        ends = np.searchsorted(chosen, [stop for _, _, stop in layout.spans()])
        sizes = tuple(each for each in np.diff(ends, prepend=0).tolist() if each)
        sent = self.choice in {Choice.LAST, Choice.MOMENTS}
        return SummedRound(sizes, lambda update: update[chosen], decode, mask_bytes(chosen, layout) if sent else 0)

    def after(self, state: State, decoded: Vector, values: Vector) -> tuple[Vector, State]:
        """What is known: the last update, or the mean square of each coordinate when it was last seen."""
        del values
        if self.choice is not Choice.MOMENTS:
            return decoded, {"known": decoded}
        known = state["known"]
        seen = np.where(known > 0, MEMORY * known + (1 - MEMORY) * decoded**2, decoded**2)
        return decoded, {"known": np.where(decoded != 0, seen, known).astype(np.float32)}


def _factored(squares: Vector) -> Vector:
    """The product of row and column means over what was seen; a vector's are taken as they are."""
    if squares.ndim == 1:
        return squares
    seen = squares > 0
    rows, columns = (squares.sum(axis) / np.maximum(seen.sum(axis), 1) for axis in (1, 0))
    return np.outer(rows, columns).ravel().astype(np.float32) / np.float32(squares[seen].mean() if seen.any() else 1)
