"""Which coordinates were sent: positions coded with the rows of the tensors.

The non-zeros of a real LSTM update are not spread evenly: most lie in a few rows (the words that were typed) or
columns. So each tensor is coded by *lines*, its rows or its columns, whichever is shorter to write:

1. which lines have any position (gaps between their numbers),
2. how many positions each of those has,
3. the gaps between the positions inside each line,

all as Rice codes whose parameter follows from counts that the reader already has. Only integers are used, so every
machine writes the same bytes. ``docs/wire-format.md`` is the normative text.
"""

from __future__ import annotations

import numpy as np

from wire.codec.bits import BitReader, Bits, Ints, rice_encode, rice_parameter
from wire.errors import RemoteProtocolError
from wire.parameters import ParameterLayout, ParameterSpec


def encode_positions(indices: Ints, layout: ParameterLayout) -> bytes:
    """Code ascending positions in the flat vector.

    Args:
        indices: (k,) int64, strictly ascending, in [0, n).
        layout: the tensors of the flat vector.

    Returns:
        The coded bytes; the reader needs the layout, nothing else.
    """
    parts: list[Bits] = []
    for spec, start, stop in layout.spans():
        low, high = np.searchsorted(indices, [start, stop])
        local = indices[low:high] - start
        parts.append(min((_encode_lines(local, spec, axis) for axis in _axes(spec)), key=len))
    return np.packbits(np.concatenate(parts)).tobytes() if parts else b""


def decode_positions(data: bytes, layout: ParameterLayout) -> Ints:
    """Inverse of :func:`encode_positions`.

    Args:
        data: bytes from the network.
        layout: the tensors of the flat vector.

    Returns:
        (k,) int64, strictly ascending, in [0, n).

    Raises:
        RemoteProtocolError: not the bytes of any set of positions in this layout.
    """
    reader = BitReader(data)
    parts = [_decode_lines(reader, spec) + start for spec, start, _ in layout.spans()]
    reader.finish()
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _axes(spec: ParameterSpec) -> tuple[int, ...]:
    """Row-wise (0), and column-wise (1) where the tensor has two axes that differ from a single line."""
    return (0, 1) if len(spec.shape) == 2 and min(spec.shape) > 1 else (0,)


def _lines(spec: ParameterSpec, axis: int) -> tuple[int, int]:
    """Number of lines of a tensor and their length."""
    if len(spec.shape) < 2:
        return 1, spec.size
    rows, columns = spec.shape[0], spec.size // spec.shape[0]
    return (rows, columns) if axis == 0 else (columns, rows)


def _encode_lines(local: Ints, spec: ParameterSpec, axis: int) -> Bits:
    lines, length = _lines(spec, axis)
    line, place = np.divmod(local, length) if axis == 0 else np.divmod(local, lines)[::-1]
    if axis == 1:
        order = np.lexsort((place, line))
        line, place = line[order], place[order]
    used, counts = np.unique(line, return_counts=True)
    header = np.array([axis, used.size], np.int64)
    parts = [rice_encode(header[:1], np.zeros(1, np.int64)), rice_encode(header[1:], _header_parameter(lines))]
    if used.size:
        gaps = np.diff(used, prepend=-1) - 1
        parts.append(rice_encode(gaps, _even_gaps(np.array([used.size]), lines)))
        excess = local.size - used.size
        parts.append(rice_encode(np.array([excess]), _header_parameter(used.size * length)))
        parts.append(rice_encode(counts - 1, _mean_parameter(excess, used.size)))
        first = np.zeros(local.size, bool)
        first[np.cumsum(counts) - counts] = True
        previous = np.where(first, -1, np.concatenate([[-1], place[:-1]]))
        parts.append(rice_encode(place - previous - 1, np.repeat(_even_gaps(counts, length, per_line=True), counts)))
    return np.concatenate(parts)


def _decode_lines(reader: BitReader, spec: ParameterSpec) -> Ints:
    axis = int(reader.rice(np.zeros(1, np.int64))[0])
    if axis not in _axes(spec):
        raise _impossible(spec, f"axis {axis}")
    lines, length = _lines(spec, axis)
    used_count = int(reader.rice(_header_parameter(lines))[0])
    if used_count == 0:
        return np.zeros(0, np.int64)
    if used_count > lines:
        raise _impossible(spec, f"{used_count} of {lines} lines in use")
    used = np.cumsum(reader.rice(_even_gaps(np.array([used_count]), lines)) + 1) - 1
    excess = int(reader.rice(_header_parameter(used_count * length))[0])
    if used[-1] >= lines or excess > used_count * (length - 1):
        raise _impossible(spec, f"line {used[-1]} of {lines}, {excess} positions beyond one per line")
    counts = reader.rice(_mean_parameter(excess, used_count)) + 1
    if int(counts.max()) > length or int(counts.sum()) != excess + used_count:
        raise _impossible(spec, f"up to {counts.max()} positions in a line of {length}")
    steps = reader.rice(np.repeat(_even_gaps(counts, length, per_line=True), counts)) + 1
    if int(steps.max()) > length:
        raise _impossible(spec, f"a gap of {steps.max()} in a line of {length}")
    ends = np.cumsum(steps)
    starts = np.concatenate([[0], ends[np.cumsum(counts) - 1][:-1]])
    place = ends - np.repeat(starts, counts) - 1
    if int(place.max()) >= length:
        raise _impossible(spec, f"position {place.max()} in a line of {length}")
    line = np.repeat(used, counts)
    return line * length + place if axis == 0 else np.sort(place * lines + line)


def _even_gaps(counts: Ints, length: int, *, per_line: bool = False) -> Ints:
    """Parameters for the gaps that ``counts`` positions leave in ``length`` places."""
    parameters = rice_parameter(np.maximum(length - counts, 0), counts)
    return parameters if per_line else np.repeat(parameters, counts)


def _mean_parameter(total: int, count: int) -> Ints:
    """Parameters for ``count`` values that sum to ``total``."""
    return np.repeat(rice_parameter(np.array([total], np.int64), np.array([count], np.int64)), count)


def _header_parameter(largest: int) -> Ints:
    """Parameter for one number that is at most ``largest``: cheap where it is small beside it, never long."""
    return np.array([max(largest.bit_length() - 4, 0)], np.int64)


def _impossible(spec: ParameterSpec, what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"positions of {spec.name} {spec.shape} cannot be: {what}", code="payload")
