"""Groups positions in a tensor by its lines (rows or columns).

The non-zeros of a real LSTM update are not spread evenly: most lie in a few rows of a tensor (the words that were
typed) or a few columns. A tensor of shape (R, C) has R lines of C places along axis 0 (its rows), and C lines of R
places along axis 1 (its columns). A tensor with one axis is a single line. A tensor with more than two axes is treated
as (R, product of the others), along axis 0 only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.wire.parameters import ParameterSpec

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Positions of one tensor by line."""

    axis: int  # 0 or 1
    used: Ints  # (u,) int64, ascending: the lines that have at least one position
    counts: Ints  # (u,) int64 >= 1, number of positions in each used line
    places: Ints  # (k,) int64: the places within the first used line, ascending, then those within the second, ...


def axes(spec: ParameterSpec) -> tuple[int, ...]:
    """The axes along which a tensor has lines.

    >>> axes(ParameterSpec("w", (4, 3))), axes(ParameterSpec("b", (4,))), axes(ParameterSpec("row", (1, 3)))
    ((0, 1), (0,), (0,))
    """
    return (0, 1) if len(spec.shape) == 2 and min(spec.shape) > 1 else (0,)


def extent(spec: ParameterSpec, axis: int) -> tuple[int, int]:
    """Number of lines along an axis, and number of places in each.

    >>> extent(ParameterSpec("w", (4, 3)), 1), extent(ParameterSpec("b", (4,)), 0)
    ((3, 4), (1, 4))
    """
    if len(spec.shape) < 2:
        return 1, spec.size
    rows, columns = spec.shape[0], spec.size // spec.shape[0]
    return (rows, columns) if axis == 0 else (columns, rows)


def split(local: Ints, spec: ParameterSpec, axis: int) -> Lines:
    """Group positions (k,) int64 of a tensor, strictly ascending, by the lines along one of its :func:`axes`."""
    lines, length = extent(spec, axis)
    if axis == 0:
        line, place = np.divmod(local, length)
    else:
        place, line = np.divmod(local, lines)
        order = np.argsort(line, kind="stable")  # the places are ascending already
        line, place = line[order], place[order]
    begins = np.flatnonzero(np.concatenate([[True], line[1:] != line[:-1]])[: line.size])
    return Lines(axis, line[begins], np.diff(begins, append=line.size), place)


def join(found: Lines, spec: ParameterSpec) -> tuple[Ints, Ints]:
    """Inverse of :func:`split`: (k,) int64 positions, ascending, and the number of positions in the line of each."""
    lines, length = extent(spec, found.axis)
    line = np.repeat(found.used, found.counts.astype(np.intp))
    crowd = np.repeat(found.counts, found.counts.astype(np.intp))
    if found.axis == 0:
        return line * length + found.places, crowd
    local = found.places * lines + line
    order = np.argsort(local, kind="stable")
    return local[order], crowd[order]


def gaps(found: Lines) -> Ints:
    """Empty places between each position and the previous one, or the start of its line: (k,) int64."""
    previous = np.empty_like(found.places)
    previous[1:] = found.places[:-1]
    previous[np.cumsum(found.counts) - found.counts] = -1
    return found.places - previous - 1


def places(steps: Ints, counts: Ints) -> Ints:
    """Inverse of :func:`gaps`."""
    ends = np.cumsum(steps + 1)
    before = np.concatenate([np.zeros(1, np.int64), ends[np.cumsum(counts) - 1][:-1]])
    local: Ints = ends - np.repeat(before, counts.astype(np.intp)) - 1
    return local
