"""Top-k with another number of bits, or another rounding, than the named codecs: what they were chosen from.

The same stages as ``wire.codec``, put together for this study alone: no agent or coordinator knows these. Names are
``topk-<bits>`` for the nearest point of the logarithmic grid, with ``-unbiased`` for stochastic rounding on it.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from wire.codec import Codec, Sparse, modelled
from wire.codec.contract import Encoded, Received
from wire.codec.quantize import dequantize, logarithmic_grid, quantize
from wire.codec.sparsify import count_for, top_k
from wire.codec.topk import GRID_BYTES, grid_from_bytes, grid_to_bytes
from wire.errors import LocalProtocolError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector

WIRE_ID = 255
"""Of no codec: these never leave the process."""

_NAME = re.compile(r"topk-(?P<bits>[2-8])(?P<unbiased>-unbiased)?")
_COUNT = struct.Struct("<I")


def coarse_codec(choice: CodecChoice) -> Codec:
    """The codec of such a name.

    >>> coarse_codec(CodecChoice(name="topk-2")).name
    'topk-2'

    Raises:
        LocalProtocolError: it is no such name.
    """
    found = _NAME.fullmatch(choice.name)
    if found is None:
        msg = f"expected topk-BITS or topk-BITS-unbiased, got {choice.name!r}"
        raise LocalProtocolError(msg)
    bits, unbiased = int(found["bits"]), found["unbiased"] is not None

    def write(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> Encoded:
        sparse = top_k(delta, count_for(choice.density, layout.size))
        grid = logarithmic_grid(sparse.values, bits, reach=unbiased)
        levels = quantize(sparse.values, grid, rng if unbiased else None)
        body = modelled.encode(sparse.indices, levels, layout, grid.most).data
        payload = _COUNT.pack(sparse.indices.size) + grid_to_bytes(grid) + body
        return Encoded(lambda: payload, Sparse(layout.size, sparse.indices, dequantize(levels, grid)))

    def decode(payload: bytes, layout: ParameterLayout) -> Sparse:
        (count,) = _COUNT.unpack_from(payload)
        start = _COUNT.size + GRID_BYTES[4]
        grid = grid_from_bytes(payload[_COUNT.size : start], bits)
        indices, levels = modelled.decode(payload[start:], count, layout, with_levels=True, most=grid.most)
        return Sparse(layout.size, indices, dequantize(levels, grid))

    def read(payload: bytes, layout: ParameterLayout) -> Received:
        update = decode(payload, layout)
        return Received(float(np.linalg.norm(update.values)), lambda: update)

    return Codec(choice.name, WIRE_ID, write, read)
