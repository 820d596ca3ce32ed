"""Top-k codecs with other numbers of bits and other rounding, as alternatives to the product's codecs.

They combine the stages of ``wire.codec`` for this study only; agents and coordinators do not have them. The name
``topk-<bits>`` rounds to the nearest point of the logarithmic grid; ``-unbiased`` rounds stochastically.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from nightjar.wire.codec import Codec, Sparse, modelled
from nightjar.wire.codec.contract import Encoded, Received
from nightjar.wire.codec.quantize import dequantize, logarithmic_grid, quantize
from nightjar.wire.codec.sparsify import count_for, top_k
from nightjar.wire.codec.topk import GRID_BYTES, grid_from_bytes, grid_to_bytes
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, Vector

WIRE_ID = 255
"""An unassigned wire id: these frames never leave the process."""

_NAME = re.compile(r"topk-(?P<bits>[2-8])(?P<unbiased>-unbiased)?")
_COUNT = struct.Struct("<I")


def coarse_codec(choice: CodecChoice) -> Codec:
    """The codec with this name.

    >>> coarse_codec(CodecChoice(name="topk-2")).name
    'topk-2'

    Raises:
        LocalProtocolError: the name has another form.
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
        indices, levels = modelled.decode(payload[start:], count, layout, most=grid.most)
        return Sparse(layout.size, indices, dequantize(levels, grid))

    def read(payload: bytes, layout: ParameterLayout) -> Received:
        update = decode(payload, layout)
        return Received(float(np.linalg.norm(update.values)), lambda: update)

    return Codec(choice.name, WIRE_ID, write, read)
