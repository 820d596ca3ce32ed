"""The top-k codecs: the k largest entries of an update, quantised to a grid, at positions that the device chose.

The body has two forms, and the writer takes the shorter one. The *modelled* form (:mod:`nightjar.wire.codec.modelled`)
is made for real updates. The *bitmap* form is a zlib-compressed bitmap of all parameters followed by the plain levels;
it bounds the length for any positions. The head carries the norm of the values, so that a receiver can judge it without
decoding any positions; a payload whose head is false is refused when it is decoded.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import NamedTuple

import numpy as np

from nightjar.wire.codec import fields, modelled
from nightjar.wire.codec.contract import Encoded, Family, Read, Received, Write
from nightjar.wire.codec.quantize import (
    OCTAVE,
    Grid,
    Ints,
    Logarithmic,
    Uniform,
    dequantize,
    logarithmic_grid,
    most_for,
    norm,
    quantize,
    uniform_grid,
)
from nightjar.wire.codec.sparsify import Sparse, count_for, top_k
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, Vector

FORM_MODELLED = 0
FORM_BITMAP = 1

GRID_BYTES = {8: 4, 4: 6}
"""Bytes of the grid in a payload, by bits per level."""
_COUNT = struct.Struct("<I")
_UNIFORM = struct.Struct("<f")
_LOGARITHMIC = struct.Struct("<fH")
_NORM_AND_FORM = struct.Struct("<fB")


def codec(bits: int) -> Family:
    """The top-k codec with levels of 8 or 4 bits."""

    def family(density: float) -> tuple[Write, Read]:
        def write(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> Encoded:
            sparse = top_k(delta, count_for(density, layout.size))
            levels, grid = levels_of(sparse.values, bits, rng)
            sent = Sparse(layout.size, sparse.indices, dequantize(levels, grid))
            return Encoded(lambda: encode_levels(sparse.indices, levels, grid, layout), sent)

        return write, reader(density, bits)

    return family


def reader(density: float, bits: int, ones: int = modelled.LEVEL_PRIOR) -> Read:
    """The function that reads payloads of at most the values of a density; ``ones`` as in :func:`encode_levels`."""

    def read(payload: bytes, layout: ParameterLayout) -> Received:
        head, asked = _read_head(payload, layout, bits), count_for(density, layout.size)
        if head.k > asked:  # the work to decode grows with the number of values
            fields.refuse(f"expected at most {asked} values at density {density:g}, got {head.k}")
        return Received(head.norm, lambda: decode_topk(payload, layout, bits=bits, ones=ones))

    return read


def levels_of(values: Vector, bits: int, rng: np.random.Generator) -> tuple[Ints, Grid]:
    """Quantise values: 8 bits on a uniform grid with stochastic rounding, or 4 bits on a logarithmic grid."""
    if bits == 8:
        uniform = uniform_grid(values, bits)
        return quantize(values, uniform, rng), uniform
    logarithmic = logarithmic_grid(values, bits)
    return quantize(values, logarithmic), logarithmic


def encode_levels(
    indices: Ints, levels: Ints, grid: Grid, layout: ParameterLayout, ones: int = modelled.LEVEL_PRIOR
) -> bytes:
    """Write positions (k,) int64, strictly ascending in [0, n), and the levels there, (k,) int64 in [-most, most].

    ``ones`` is how likely a magnitude of 1 is at first (:mod:`nightjar.wire.codec.modelled`).
    """
    form, body = FORM_MODELLED, modelled.encode(indices, levels, layout, grid.most, ones).data
    plain = _bitmap_body(indices, levels, layout, grid.most)
    if len(plain) < len(body):
        form, body = FORM_BITMAP, plain
    head = _COUNT.pack(indices.size) + grid_to_bytes(grid) + _NORM_AND_FORM.pack(_head_norm(levels, grid), form)
    return head + body


def decode_topk(payload: bytes, layout: ParameterLayout, *, bits: int, ones: int = modelled.LEVEL_PRIOR) -> Sparse:
    """Decode the positions and values of a payload of any density.

    Raises:
        RemoteProtocolError: the payload is not valid for this codec.
    """
    head = _read_head(payload, layout, bits)
    body, most = payload[head.size :], head.grid.most
    if head.form == FORM_MODELLED:
        indices, levels = modelled.decode(body, head.k, layout, most, ones)
    else:
        indices, levels = _from_bitmap_body(body, head.k, layout, most)
    if _head_norm(levels, head.grid) != head.norm:
        fields.refuse(f"the head says a norm of {head.norm}, the values have {_head_norm(levels, head.grid)}")
    return Sparse(layout.size, indices, dequantize(levels, head.grid))


class _Head(NamedTuple):
    """The head of a payload, validated as far as possible without the body."""

    size: int
    k: int
    grid: Grid
    norm: float
    form: int


def _read_head(payload: bytes, layout: ParameterLayout, bits: int) -> _Head:
    end = _COUNT.size + GRID_BYTES[bits]
    size = end + _NORM_AND_FORM.size
    if len(payload) < size:
        fields.refuse(f"a payload of this codec has at least {size} bytes, got {len(payload)}")
    (count,) = _COUNT.unpack_from(payload)
    grid = grid_from_bytes(payload[_COUNT.size : end], bits)
    norm_said, form = _NORM_AND_FORM.unpack_from(payload, end)
    if count > layout.size or not 0 <= norm_said < math.inf or form not in (FORM_MODELLED, FORM_BITMAP):
        fields.refuse(f"k = {count}, norm {norm_said} and form {form} do not fit {layout.size} parameters")
    return _Head(size, count, grid, norm_said, form)


def _head_norm(levels: Ints, grid: Grid) -> float:
    """The norm as a float32, capped at the largest float32."""
    return float(np.float32(min(norm(levels, grid), float(np.finfo(np.float32).max))))


def grid_to_bytes(grid: Grid) -> bytes:
    """Encode a grid for a payload; the number of levels follows from the codec."""
    match grid:
        case Uniform():
            return _UNIFORM.pack(grid.scale)
        case Logarithmic():
            return _LOGARITHMIC.pack(grid.least, grid.ratio)


def grid_from_bytes(data: bytes, bits: int) -> Grid:
    """Inverse of :func:`grid_to_bytes`: four bytes are a uniform grid, six a logarithmic one.

    Raises:
        RemoteProtocolError: the scale is negative or not finite, or the ratio is above an octave.
    """
    uniform = len(data) == _UNIFORM.size
    scale, ratio = (*_UNIFORM.unpack(data), 0) if uniform else _LOGARITHMIC.unpack(data)
    if not 0 <= scale < math.inf or ratio > OCTAVE:
        fields.refuse(f"a scale of {scale} and a ratio of {ratio} make no grid")
    most = most_for(bits)
    return Uniform(scale, most) if uniform else Logarithmic(scale, ratio, most)


def pack_levels(levels: Ints, most: int) -> bytes:
    """Pack plain levels: each ``level + most`` in the fewest bits that fit every level."""
    return fields.pack(levels + most, np.full(levels.size, (2 * most).bit_length()))


def unpack_levels(data: bytes, count: int, most: int) -> Ints:
    """Inverse of :func:`pack_levels`.

    Raises:
        RemoteProtocolError: there are too few or too many bytes, or a level is out of range.
    """
    reader = fields.FieldReader(data)
    levels = reader.take(np.full(count, (2 * most).bit_length())) - most
    reader.finish()
    if count and int(levels.max()) > most:
        fields.refuse(f"level {levels.max()} does not exist, the largest is {most}")
    return levels


def _bitmap_body(indices: Ints, levels: Ints, layout: ParameterLayout, most: int) -> bytes:
    bitmap = np.zeros(layout.size, np.uint8)
    bitmap[indices] = 1
    packed = np.packbits(bitmap).tobytes()
    # Occasionally zlib's thorough search gives a few bytes more than its quick ones.
    positions = min((zlib.compress(packed, effort) for effort in (9, 6, 1)), key=len)
    return positions + pack_levels(levels, most)


def _from_bitmap_body(body: bytes, count: int, layout: ParameterLayout, most: int) -> tuple[Ints, Ints]:
    length = (layout.size + 7) // 8
    reader = zlib.decompressobj()
    try:
        packed = reader.decompress(body, length + 1)  # bounds a decompression bomb
    except zlib.error as error:
        msg = f"the bitmap cannot be decompressed: {error}"
        raise RemoteProtocolError(msg, code="payload") from error
    bits = np.unpackbits(np.frombuffer(packed, np.uint8))
    if not reader.eof or len(packed) != length or bits[layout.size :].any() or int(bits.sum()) != count:
        fields.refuse(
            f"expected a bitmap of {layout.size} bits with {count} ones, got {len(packed)} bytes, {bits.sum()} ones"
        )
    return np.flatnonzero(bits).astype(np.int64), unpack_levels(reader.unused_data, count, most)
