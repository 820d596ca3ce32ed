"""A linear compressor: the update of each matrix at the rank that the updates of the last rounds had.

The update X of a matrix, R x D with the longer axis as its rows, is given by two products with bases that the
coordinator chooses for all devices of a round: X V and U'X, where V (D x r) and U (R x s) have orthonormal columns.
Both are linear, so the sum over devices gives those of the mean update M, and from them::

    M V V' + U (U'M - U'M V V')

which is the orthogonal projection of M onto the matrices with their rows in V or their columns in U. The bases are the
singular vectors of what was decoded in the last rounds. Each product shows what the other's basis lacks, so both follow
the updates without random exploration, as in a power iteration with one step a round.

Of a matrix with more than ``rows`` rows only the first are sent; in the embedding these are the commonest words.
Vectors are sent whole. It is not a codec of :mod:`nightjar.wire.codec`: one report alone is masked and says nothing.

Source: Vogels et al. 2019, "PowerSGD", for a warm start from the last round; here both halves are warm, which needs one
sum instead of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, Vector

Matrix = npt.NDArray[np.float32]
MEMORY = 0.5
"""Share of the average that is kept from round to round."""

_BAND = 16


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """How much of each matrix is summed."""

    rows: Annotated[int, Meta(ge=1, le=2**20)]  # most rows of a matrix that are sent
    right: Annotated[int, Meta(ge=1, le=64)]  # r, numbers for each row; fewer in a matrix with fewer columns
    left: Annotated[int, Meta(ge=1, le=64)]  # s, rows for each matrix; likewise


@dataclass(frozen=True, slots=True, eq=False)
class Bases:
    """The two bases of a matrix."""

    right: Matrix  # V, (D, r) float32
    left: Matrix  # U, (F, s) float32; F is the number of rows that are sent


def bases_of(average: Vector, layout: ParameterLayout, rank: Rank, rng: np.random.Generator) -> tuple[Bases, ...]:
    """Choose the bases of a round, rounded to float16 as they are sent.

    They follow from the average (n,) float32 of the decoded sums so far, and are random for matrices that are zero.
    """
    found = []
    for matrix in _matrices(average, layout):
        sent = matrix[: rank.rows].astype(np.float64)
        if not sent.any():
            sent = rng.standard_normal(sent.shape)
        _, vectors = np.linalg.eigh(sent.T @ sent)  # ascending; quicker than the singular values of a long matrix
        right = vectors[:, ::-1]
        left = np.linalg.qr(sent @ right[:, : rank.left])[0]
        found.append(Bases(_rounded(right[:, : rank.right]), _rounded(left)))
    return tuple(found)


def next_average(average: Vector, decoded: Vector) -> Vector:
    """The average after a round, for the bases of the next.

    >>> next_average(np.array([2.0], np.float32), np.array([1.0], np.float32)).tolist()
    [1.5]
    """
    return np.float32(MEMORY) * average + np.float32(1 - MEMORY) * decoded


def group_sizes(layout: ParameterLayout, rank: Rank) -> tuple[int, ...]:
    """How many values each group has that :func:`encode` gives, in their order.

    Groups are vectors, bands of columns of XV, and rows of U'X. Values of common words are much larger than others.

    >>> from nightjar.wire.parameters import ParameterSpec
    >>> layout = ParameterLayout((ParameterSpec("kernel", (90, 3)), ParameterSpec("bias", (4,))))
    >>> group_sizes(layout, Rank(rows=70, right=2, left=1))
    (4, 16, 48, 6, 16, 48, 6, 3)
    """
    sizes = [tensor.size for tensor in layout.tensors if len(tensor.shape) != 2]
    for columns, rows, right, left in _shapes(layout, rank):
        sizes += _bands(rows) * right + [columns] * left
    return tuple(sizes)


def encode(update: Vector, layout: ParameterLayout, bases: tuple[Bases, ...]) -> Vector:
    """What a device gives to the sum: (k,) float32, in the order of :func:`group_sizes`."""
    parts = [update[start:stop] for spec, start, stop in layout.spans() if len(spec.shape) != 2]
    for matrix, each in zip(_matrices(update, layout), bases, strict=True):
        sent = matrix[: len(each.left)]
        parts += [(sent @ each.right).T.ravel(), (each.left.T @ sent).ravel()]
    return np.concatenate(parts).astype(np.float32)


def decode(values: Vector, layout: ParameterLayout, bases: tuple[Bases, ...]) -> Vector:
    """The update (n,) float32 of which :func:`encode` gives these values and which is zero otherwise.

    Raises:
        LocalProtocolError: there are too few or too many values.
    """
    wanted = encode(np.zeros(layout.size, np.float32), layout, bases).size
    if values.size != wanted:
        msg = f"expected {wanted} values, got {values.size}"
        raise LocalProtocolError(msg)
    update = np.zeros(layout.size, np.float32)
    rest = values
    for spec, start, stop in layout.spans():
        if len(spec.shape) != 2:
            update[start:stop], rest = rest[: stop - start], rest[stop - start :]
    for matrix, each in zip(_matrices(update, layout), bases, strict=True):
        (rows, left), (columns, right) = each.left.shape, each.right.shape
        products, rest = np.split(rest, [rows * right + left * columns])
        by_rows = products[: rows * right].reshape(right, rows).T @ each.right.T
        by_columns = products[rows * right :].reshape(left, columns)
        matrix[:rows] = by_rows + each.left @ (by_columns - each.left.T @ by_rows)
    return update


def to_bytes(bases: tuple[Bases, ...], spread: Vector) -> bytes:
    """What devices are sent: the spread of each group as float32, then V and U of each matrix as float16.

    All little-endian; the shapes follow from the layout and the rank.
    """
    numbers = b"".join(basis.astype("<f2").tobytes() for each in bases for basis in (each.right, each.left))
    return spread.astype("<f4").tobytes() + numbers


def from_bytes(data: bytes, layout: ParameterLayout, rank: Rank) -> tuple[tuple[Bases, ...], Vector]:
    """Inverse of :func:`to_bytes`.

    Raises:
        RemoteProtocolError: the data does not fit the layout and the rank, or it holds numbers that cannot be.
    """
    head = 4 * len(group_sizes(layout, rank))
    length = head + 2 * sum(columns * right + rows * left for columns, rows, right, left in _shapes(layout, rank))
    if len(data) != length:
        msg = f"expected bases of {length} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="bases")
    spread = np.frombuffer(data[:head], "<f4").astype(np.float32)
    numbers = np.frombuffer(data[head:], "<f2").astype(np.float32)
    if not (np.isfinite(numbers).all() and np.isfinite(spread).all() and (spread > 0).all()):
        msg = "expected bases of finite numbers, and a positive spread of each group"
        raise RemoteProtocolError(msg, code="bases")
    found = []
    for columns, rows, right, left in _shapes(layout, rank):
        of_rows, of_columns, numbers = np.split(numbers, np.cumsum([columns * right, rows * left]))
        found.append(Bases(of_rows.reshape(columns, right), of_columns.reshape(rows, left)))
    return tuple(found), spread


def _bands(rows: int) -> list[int]:
    """The first 16 rows, then up to four times as many."""
    sizes: list[int] = []
    end = _BAND
    while sum(sizes) < rows:
        sizes.append(min(end, rows) - sum(sizes))
        end *= 4
    return sizes


def _shapes(layout: ParameterLayout, rank: Rank) -> Iterator[tuple[int, int, int, int]]:
    """(D, F, r, s) of each matrix."""
    for spec in layout.tensors:
        if len(spec.shape) == 2:
            columns, rows = min(spec.shape), min(max(spec.shape), rank.rows)
            yield columns, rows, min(rank.right, columns), min(rank.left, columns, rows)


def _matrices(vector: Vector, layout: ParameterLayout) -> Iterator[Matrix]:
    """Each matrix of a flat vector as a view, with its longer axis as the rows."""
    for spec, start, stop in layout.spans():
        if len(spec.shape) == 2:
            matrix = vector[start:stop].reshape(spec.shape)
            yield matrix if spec.shape[0] >= spec.shape[1] else matrix.T


def _rounded(basis: npt.NDArray[np.float64]) -> Matrix:
    return basis.astype(np.float16).astype(np.float32)
