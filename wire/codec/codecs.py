"""The registry of named codecs, which turn an update into the payload of a report.

A codec is two functions (:mod:`wire.codec.contract`) and a wire id. Its stages (:mod:`wire.codec.sparsify`,
:mod:`wire.codec.quantize`, :mod:`wire.codec.modelled`) are independent of each other.

=====  ===========  ===========================================================================================
id     name         payload
=====  ===========  ===========================================================================================
1      dense-f32    n values, little-endian float32
3      dense-f16    n values, little-endian float16
4      topk-8       the k largest entries: 8 bits on a uniform grid, stochastic rounding; entropy-coded
5      topk-4       the k largest entries: 4 bits on a logarithmic grid, nearest point; entropy-coded
6      mask-8       the entries at coordinates that the coordinator chose, 8 bits, always the same length
7      mask-4       the entries at coordinates that the coordinator chose, 4 bits, always the same length
=====  ===========  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wire.codec import dense, masks, topk
from wire.codec.contract import Codec, Encoded, Family, Write
from wire.codec.quantize import Ints
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the registry.

    Attributes:
        wire_id: id in the report; never reused for another codec.
        family: creates the codec's functions.
        masked: whether the codec needs a mask.
    """

    wire_id: int
    family: Family
    masked: bool = False


REGISTRY: Mapping[str, Entry] = {
    "dense-f32": Entry(1, dense.codec("<f4")),
    "dense-f16": Entry(3, dense.codec("<f2")),
    "topk-8": Entry(4, topk.codec(8)),
    "topk-4": Entry(5, topk.codec(4)),
    "mask-8": Entry(6, masks.codec(8), masked=True),
    "mask-4": Entry(7, masks.codec(4), masked=True),
}
"""Every codec by name."""
NAMES = tuple(REGISTRY)
WIRE_IDS = {name: entry.wire_id for name, entry in REGISTRY.items()}
MASKED = frozenset(name for name, entry in REGISTRY.items() if entry.masked)
"""Names of the codecs that need a mask."""


def codec_for(choice: CodecChoice, mask: Ints | None = None) -> Codec:
    """The codec that a task asks for.

    >>> codec_for(CodecChoice(name="dense-f32")).wire_id
    1

    Args:
        choice: name and density.
        mask: (k,) int64, strictly ascending: the coordinates of a masked codec.

    Raises:
        RemoteProtocolError: there is no codec of this name.
        LocalProtocolError: the codec needs a mask, and none is given.
    """
    entry = REGISTRY.get(choice.name)
    if entry is None:
        msg = f"expected one of the codecs {', '.join(NAMES)}, got {choice.name[:80]!r}"
        raise RemoteProtocolError(msg, code="codec")
    if entry.masked and mask is None:
        msg = f"codec {choice.name} needs the mask of the round"
        raise LocalProtocolError(msg)
    write, read = entry.family(choice.density, np.zeros(0, np.int64) if mask is None else mask)
    return Codec(choice.name, entry.wire_id, _of_finite(write), read)


def _of_finite(write: Write) -> Write:
    """Refuse updates that are not finite."""

    def checked(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> Encoded:
        if delta.shape != (layout.size,) or not np.isfinite(delta).all():
            msg = f"expected a finite update of shape ({layout.size},), got {delta.shape}"
            raise LocalProtocolError(msg)
        return write(delta, layout, rng)

    return checked
