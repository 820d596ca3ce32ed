"""Masked codecs: the coordinator chooses the coordinates for all devices of a round, so reports need no positions.

They are not in the product: they learn less than codecs of a device's own choice, and in sums less than low rank. A
mask holds the largest coordinates of the last committed update and a share of random others, because the next update
may have other large coordinates, and one that was never in a mask could not show that it matters.
"""

from __future__ import annotations

import math

import numpy as np

from nightjar.wire.codec import modelled
from nightjar.wire.codec.contract import Codec, Encoded, Received
from nightjar.wire.codec.quantize import Grid, Ints, dequantize, norm
from nightjar.wire.codec.sparsify import Sparse, top_k
from nightjar.wire.codec.topk import GRID_BYTES, grid_from_bytes, grid_to_bytes, levels_of, pack_levels, unpack_levels
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, Vector

MASKED = {"mask-8": 8, "mask-4": 4}
"""Bits of the codecs that need a mask."""


def choose_mask(
    last_update: Vector | None, count: int, random_share: float, size: int, rng: np.random.Generator
) -> Ints:
    """Choose the coordinates for the next round.

    Args:
        last_update: (n,) float32, the change of the last committed round; None before the first.
        count: k, the number of coordinates.
        random_share: share of the coordinates, in [0, 1], drawn uniformly from those that are not among the largest.
        size: n, the number of parameters.
        rng: random generator for the drawn coordinates.

    Returns:
        (k,) int64, strictly ascending.

    Raises:
        LocalProtocolError: k is above n.
    """
    if count > size:
        msg = f"a mask of {count} coordinates does not fit {size} parameters"
        raise LocalProtocolError(msg)
    largest = count - round(random_share * count) if last_update is not None else 0
    kept = top_k(last_update, largest).indices if last_update is not None else np.zeros(0, np.int64)
    others = np.setdiff1d(np.arange(size), kept, assume_unique=True)
    return np.sort(np.concatenate([kept, rng.choice(others, count - largest, replace=False)])).astype(np.int64)


def mask_bytes(indices: Ints, layout: ParameterLayout) -> int:
    """Bytes of a mask that devices are sent: its entropy-coded positions, and 16 for what and how many they are.

    >>> from nightjar.wire.parameters import ParameterSpec
    >>> mask_bytes(np.arange(0, 90, 9), ParameterLayout((ParameterSpec("kernel", (10, 9)),)))
    19
    """
    ones = np.ones_like(indices)
    return 16 + math.ceil(modelled.encode(indices, ones, layout, 1).position_bits / 8)


def masked_codec(choice: CodecChoice, mask: Ints) -> Codec:
    """The codec ``mask-8`` or ``mask-4`` of a round with this mask.

    >>> masked_codec(CodecChoice(name="mask-8"), np.arange(3)).wire_id
    6
    """
    bits = MASKED[choice.name]

    def write(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> Encoded:
        levels, grid = levels_of(delta[mask], bits, rng)
        sent = Sparse(layout.size, mask, dequantize(levels, grid))
        return Encoded(lambda: grid_to_bytes(grid) + pack_levels(levels, grid.most), sent)

    def read(payload: bytes, layout: ParameterLayout) -> Received:
        levels, grid = _levels(payload, mask, bits)
        return Received(norm(levels, grid), lambda: Sparse(layout.size, mask, dequantize(levels, grid)))

    return Codec(choice.name, 6 if bits == 8 else 7, write, read)


def _levels(payload: bytes, mask: Ints, bits: int) -> tuple[Ints, Grid]:
    head = GRID_BYTES[bits]
    if len(payload) < head:
        msg = f"a masked update has at least {head} bytes, got {len(payload)}"
        raise RemoteProtocolError(msg, code="payload")
    grid = grid_from_bytes(payload[:head], bits)
    return unpack_levels(payload[head:], mask.size, grid.most), grid
