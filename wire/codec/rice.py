"""The payload of codec 2, the first form of this protocol, kept readable: positions in Rice codes, levels as they are.

Each tensor is coded by its lines, along the axis that is shorter to write: which lines have any position, how many each
has, and the gaps between them, all as Rice codes whose parameter follows from counts that the reader already has. On
real updates positions cost four percent more than in :mod:`wire.codec.modelled`, and levels, which are not coded, far
more; but it is the easiest to port.

A Rice code of parameter r writes v as the quotient ``v >> r`` in unary (that many zeros, then a one) and the r low bits
as they are. Here the two halves of all values lie in two separate runs of bits: first every unary part, then every
remainder. That costs nothing and makes decoding a matter of finding the ones, which numpy does at once.

The parameter may differ from value to value, as long as the reader can compute it too. Source: Rice and Plaunt 1971;
Golomb 1966.
"""

from __future__ import annotations

import math
import struct

import numpy as np
import numpy.typing as npt

from wire.codec import lines
from wire.codec.lines import Lines
from wire.codec.quantize import Uniform, dequantize, norm, quantize, uniform_grid
from wire.codec.sparsify import Sparse, count_for, top_k
from wire.errors import RemoteProtocolError
from wire.parameters import ParameterLayout, ParameterSpec, Vector

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

_HEAD = struct.Struct("<If")
_MOST = 127


def encode_rice8(delta: Vector, layout: ParameterLayout, rng: np.random.Generator, *, density: float) -> bytes:
    """Top-k at eight bits: uniform grid, stochastic rounding."""
    sparse = top_k(delta, count_for(density, layout.size))
    grid = uniform_grid(sparse.values, 8)
    levels = quantize(sparse.values, grid, rng).astype(np.int8)
    head = _HEAD.pack(sparse.indices.size, grid.scale)
    return head + levels.tobytes() + encode_positions(sparse.indices, layout)


def decode_rice8(payload: bytes, layout: ParameterLayout) -> Sparse:
    """Inverse of :func:`encode_rice8`, as far as eight bits go.

    Raises:
        RemoteProtocolError: not a payload that it can have written.
    """
    levels, grid = _values(payload, layout)
    indices = decode_positions(payload[_HEAD.size + levels.size :], layout)
    if indices.size != levels.size:
        msg = f"{levels.size} values came with {indices.size} positions"
        raise RemoteProtocolError(msg, code="payload")
    return Sparse(layout.size, indices, dequantize(levels, grid))


def norm_rice8(payload: bytes, layout: ParameterLayout) -> float:
    """L2 norm of the values.

    Raises:
        RemoteProtocolError: the values are none.
    """
    return norm(*_values(payload, layout))


def _values(payload: bytes, layout: ParameterLayout) -> tuple[Ints, Uniform]:
    if len(payload) < _HEAD.size:
        msg = f"a rice-8 update has at least {_HEAD.size} bytes, got {len(payload)}"
        raise RemoteProtocolError(msg, code="payload")
    k, scale = _HEAD.unpack_from(payload)
    if k > layout.size or len(payload) < _HEAD.size + k or not 0 <= scale < math.inf:
        msg = f"k = {k} and scale {scale} do not fit a payload of {len(payload)} bytes for {layout.size} parameters"
        raise RemoteProtocolError(msg, code="payload")
    levels = np.frombuffer(payload, np.int8, count=k, offset=_HEAD.size).astype(np.int64)
    if k and int(levels.min()) < -_MOST:
        msg = "level -128 does not exist"
        raise RemoteProtocolError(msg, code="payload")
    return levels, Uniform(scale, _MOST)


# --- Rice codes ---


def rice_parameter(mean_numerator: Ints, mean_denominator: Ints) -> Ints:
    """The parameter for values of a known mean, numerator / denominator, in integers so that every machine agrees.

    r is the largest integer with ``2**r <= max(1, 0.75 * mean)``: near the best for geometric values.

    >>> rice_parameter(np.array([0, 3, 12, 1000]), np.array([1, 1, 1, 1])).tolist()
    [0, 1, 3, 9]

    Args:
        mean_numerator: (m,) int64 >= 0, below 2**40.
        mean_denominator: (m,) int64 >= 1.

    Returns:
        (m,) int64 in [0, 40].
    """
    floor = (3 * mean_numerator) // (4 * mean_denominator)
    # The bit length of an integer below 2**53 is the exponent of its (exact) float.
    return np.maximum(np.frexp(floor.astype(np.float64))[1].astype(np.int64) - 1, 0)


def rice_encode(values: Ints, parameters: Ints) -> Bits:
    """Code values to bits.

    Args:
        values: (m,) int64 >= 0.
        parameters: (m,) int64 in [0, 40].

    Returns:
        (bits,) uint8 of zeros and ones: every unary part, then every remainder.
    """
    quotients = values >> parameters
    unary = np.zeros(int(quotients.sum()) + values.size, np.uint8)
    unary[np.cumsum(quotients + 1) - 1] = 1
    return np.concatenate([unary, _fields(values & ((np.int64(1) << parameters) - 1), parameters)])


class BitReader:
    """Takes bits from the front of a byte string; every shortage is a :class:`RemoteProtocolError`."""

    def __init__(self, data: bytes) -> None:
        self._bits: Bits = np.unpackbits(np.frombuffer(data, np.uint8))
        self._ones = np.flatnonzero(self._bits)
        self._at = 0

    def rice(self, parameters: Ints) -> Ints:
        """Decode ``len(parameters)`` values coded by :func:`rice_encode`.

        Args:
            parameters: (m,) int64 in [0, 40].

        Returns:
            (m,) int64 >= 0.

        Raises:
            RemoteProtocolError: the bits end too early.
        """
        count = parameters.size
        if count == 0:
            return np.zeros(0, np.int64)
        first = int(np.searchsorted(self._ones, self._at))
        ones = self._ones[first : first + count]
        if ones.size < count:
            raise _short(count, "unary numbers", ones.size)
        quotients = np.diff(ones, prepend=self._at - 1) - 1
        self._at = int(ones[-1]) + 1
        # A quotient is below the number of bits that came and a parameter at most 40: the shift cannot overflow in
        # any payload below 1 MB; above that it can, and must not wrap around to a number that looks right.
        if bool(((quotients >> (62 - parameters)) > 0).any()):
            msg = "a coded number does not fit 62 bits"
            raise RemoteProtocolError(msg, code="payload")
        return (quotients.astype(np.int64) << parameters) | self._fields(parameters)

    def _fields(self, widths: Ints) -> Ints:
        total = int(widths.sum())
        bits = self._bits[self._at : self._at + total]
        if bits.size < total:
            raise _short(total, "bits of remainders", bits.size)
        self._at += total
        owner = np.repeat(np.arange(widths.size), widths.astype(np.intp))
        place = np.cumsum(widths)[owner] - 1 - np.arange(total)
        values = np.zeros(widths.size, np.int64)
        np.add.at(values, owner, bits.astype(np.int64) << place)
        return values

    def finish(self) -> None:
        """Check that only the zero bits that fill up the last byte are left.

        Raises:
            RemoteProtocolError: more than that is left, so the sender meant something else.
        """
        rest = self._bits[self._at :]
        if rest.size >= 8 or rest.any():
            msg = f"{rest.size} bits are left after the last position, expected fewer than 8 zeros"
            raise RemoteProtocolError(msg, code="payload")


def _short(expected: int, what: str, came: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"the coded positions end too early: expected {expected} {what}, got {came}", code="payload"
    )


def _fields(values: Ints, widths: Ints) -> Bits:
    """Each value in its own number of bits, most significant first."""
    owner = np.repeat(np.arange(values.size), widths.astype(np.intp))
    place = np.cumsum(widths)[owner] - 1 - np.arange(owner.size)
    return ((values[owner] >> place) & 1).astype(np.uint8)


# --- positions ---


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
        written = (_encode_lines(lines.split(local, spec, axis), spec) for axis in lines.axes(spec))
        parts.append(min(written, key=len))
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
    most = layout.size + 16 * len(layout.tensors)
    if len(data) > most:  # all numbers together have less than six bits a parameter, as Rice codes fit their mean
        msg = f"the positions of {layout.size} parameters have at most {most} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="payload")
    reader = BitReader(data)
    parts = [_decode_lines(reader, spec) + start for spec, start, _ in layout.spans()]
    reader.finish()
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _encode_lines(found: Lines, spec: ParameterSpec) -> Bits:
    total, length = lines.extent(spec, found.axis)
    used, counts = found.used.size, found.counts
    header = np.array([found.axis, used], np.int64)
    parts = [rice_encode(header[:1], np.zeros(1, np.int64)), rice_encode(header[1:], _header_parameter(total))]
    if used:
        parts.append(rice_encode(np.diff(found.used, prepend=-1) - 1, _even_gaps(np.array([used]), total)))
        excess = found.places.size - used
        parts.append(rice_encode(np.array([excess]), _header_parameter(used * length)))
        parts.append(rice_encode(counts - 1, _mean_parameter(excess, used)))
        parts.append(rice_encode(lines.gaps(found), _even_gaps(counts, length)))
    return np.concatenate(parts)


def _decode_lines(reader: BitReader, spec: ParameterSpec) -> Ints:
    axis = int(reader.rice(np.zeros(1, np.int64))[0])
    if axis not in lines.axes(spec):
        raise _impossible(spec, f"axis {axis}")
    total, length = lines.extent(spec, axis)
    used_count = int(reader.rice(_header_parameter(total))[0])
    if used_count == 0:
        return np.zeros(0, np.int64)
    if used_count > total:
        raise _impossible(spec, f"{used_count} of {total} lines in use")
    used = np.cumsum(reader.rice(_even_gaps(np.array([used_count]), total)) + 1) - 1
    excess = int(reader.rice(_header_parameter(used_count * length))[0])
    if used[-1] >= total or excess > used_count * (length - 1):
        raise _impossible(spec, f"line {used[-1]} of {total}, {excess} positions beyond one per line")
    counts = reader.rice(_mean_parameter(excess, used_count)) + 1
    if int(counts.max()) > length or int(counts.sum()) != excess + used_count:
        raise _impossible(spec, f"up to {counts.max()} positions in a line of {length}")
    steps = reader.rice(_even_gaps(counts, length))
    if int(steps.max()) >= length:
        raise _impossible(spec, f"a gap of {steps.max()} in a line of {length}")
    places = lines.places(steps, counts)
    if int(places.max()) >= length:
        raise _impossible(spec, f"position {places.max()} in a line of {length}")
    return lines.join(Lines(axis, used, counts, places), spec)[0]


def _even_gaps(counts: Ints, length: int) -> Ints:
    """Parameters for the gaps that ``counts`` positions leave in ``length`` places."""
    return np.repeat(rice_parameter(np.maximum(length - counts, 0), counts), counts.astype(np.intp))


def _mean_parameter(total: int, count: int) -> Ints:
    """Parameters for ``count`` values that sum to ``total``."""
    return np.full(count, rice_parameter(np.array([total], np.int64), np.array([count], np.int64))[0])


def _header_parameter(largest: int) -> Ints:
    """Parameter for one number that is at most ``largest``: cheap where it is small beside it, never long."""
    return np.array([max(largest.bit_length() - 4, 0)], np.int64)


def _impossible(spec: ParameterSpec, what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"positions of {spec.name} {spec.shape} cannot be: {what}", code="payload")
