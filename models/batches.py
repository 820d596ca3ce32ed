"""Packs messages into batches of the fixed shape that the training program takes.

A message of words w1..wn becomes inputs ``[BOS, w1, ..., wn]`` and targets ``[w1, ..., wn, EOS]``. Whole messages are
packed into rows of T positions, first fit; the LSTM resets its state at every BOS, so messages in a row do not affect
each other. A message with more than T positions is cut into pieces of T, and the first input of each later piece is
replaced by BOS, so every word is a target exactly once. This module uses neither TensorFlow nor text.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nightjar.models.vocabulary import BOS, EOS, FIRST_WORD, PAD

Ids = npt.NDArray[np.int32]

Piece = tuple[Sequence[int], Sequence[int]]
"""Inputs, of which the first is BOS, and as many targets."""


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Packed examples: messages of a keyboard, or rows of another task type.

    ``PAD`` of a keyboard, and -1 and NaN of others, are no target.
    """

    x: npt.NDArray[Any]  # (steps, B, T) int32, or (steps, B, ...) float32: inputs
    y: npt.NDArray[Any]  # (steps, B, T) int32, or (steps, B): targets
    targets: int  # number of targets, including end-of-message and out-of-vocabulary; the weight of an update
    counted_targets: int  # number of targets that count for recall: words of the vocabulary

    def __iter__(self) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Each step's (x, y)."""
        return zip(self.x, self.y, strict=True)

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.x)


def of_rows(
    x: npt.NDArray[Any], y: npt.NDArray[Any], batch_rows: int, chosen: npt.NDArray[np.bool_] | None = None
) -> Batches:
    """Pack rows into batches; the last batch is filled with rows without a target.

    Rows are x (n, ...) float32 and y (n,), int32 classes or float32 values; ``chosen`` (n,) says which to take.

    >>> of_rows(np.float32([[1], [2], [3]]), np.int32([0, 1, 0]), 2).y.tolist()
    [[0, 1], [0, -1]]
    """
    taken = np.arange(len(x)) if chosen is None else np.flatnonzero(chosen)
    count = len(taken)
    steps = -(-count // batch_rows)
    inputs = np.zeros((steps * batch_rows, *x.shape[1:]), np.float32)
    targets = np.full(steps * batch_rows, -1 if y.dtype.kind == "i" else np.nan, y.dtype)
    # With any other mode NumPy makes a further copy, which takes the memory of many images once more.
    np.take(np.asarray(x, np.float32), taken, axis=0, out=inputs[:count], mode="clip")
    targets[:count] = y[taken]
    shape = (steps, batch_rows)
    return Batches(inputs.reshape(*shape, *x.shape[1:]), targets.reshape(shape), count, count)


def pack(
    messages: Sequence[Sequence[int]],
    batch_rows: int,
    sequence_length: int,
    generator: np.random.Generator | None = None,
) -> Batches:
    """Pack messages (word ids without BOS and EOS) into batches, first fit; without any word there is no batch.

    A generator shuffles the messages first; None packs them in the given order.

    >>> b = pack([[7, 8], [9], []], batch_rows=1, sequence_length=6)
    >>> b.x.tolist(), b.y.tolist(), b.targets, b.counted_targets
    ([[[1, 7, 8, 1, 9, 0]]], [[[7, 8, 2, 9, 2, 0]]], 5, 3)
    """
    order = range(len(messages)) if generator is None else generator.permutation(len(messages)).tolist()
    return pack_pieces(
        [piece for i in order for piece in _pieces(messages[i], sequence_length)], batch_rows, sequence_length
    )


def pack_pieces(pieces: Sequence[Piece], batch_rows: int, sequence_length: int) -> Batches:
    """Pack pieces of messages, none longer than a row, into batches, first fit in the given order."""
    places, rows = _first_fit([len(x) for x, _ in pieces], sequence_length)
    steps = -(-rows // batch_rows)
    x = np.full((steps * batch_rows, sequence_length), PAD, np.int32)
    y = np.full_like(x, PAD)
    for (row, start), (inputs, outputs) in zip(places, pieces, strict=True):
        x[row, start : start + len(inputs)] = inputs
        y[row, start : start + len(inputs)] = outputs
    return Batches(
        x.reshape(steps, batch_rows, sequence_length),
        y.reshape(steps, batch_rows, sequence_length),
        targets=int(np.count_nonzero(y != PAD)),
        counted_targets=int(np.count_nonzero(y >= FIRST_WORD)),
    )


def _pieces(message: Sequence[int], length: int) -> Iterator[Piece]:
    if not message:
        return
    outputs = [*message, EOS]
    for start in range(0, len(outputs), length):
        stop = min(start + length, len(outputs))
        yield [BOS, *message[start : stop - 1]], outputs[start:stop]


def _first_fit(lengths: Sequence[int], capacity: int) -> tuple[list[tuple[int, int]], int]:
    """Returns (row, start) of each piece, and the number of rows.

    Rows are kept in one heap per amount of free room. The first row that fits is the minimum over the heaps with enough
    room, so no scan over all rows is needed.
    """
    rows_with_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    places: list[tuple[int, int]] = []
    rows = 0
    for length in lengths:
        room = min(
            (r for r in range(length, capacity + 1) if rows_with_room[r]),
            key=lambda r: rows_with_room[r][0],
            default=None,
        )
        if room is None:
            row, room, rows = rows, capacity, rows + 1
        else:
            row = heapq.heappop(rows_with_room[room])
        places.append((row, capacity - room))
        heapq.heappush(rows_with_room[room - length], row)
    return places, rows
