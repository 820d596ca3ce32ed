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
=====  ===========  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wire.codec import dense, topk
from wire.codec.contract import Codec, Encoded, Family, Write
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the registry.

    Attributes:
        wire_id: id in the report; never reused for another codec.
        family: creates the codec's functions.
    """

    wire_id: int
    family: Family


REGISTRY: Mapping[str, Entry] = {
    "dense-f32": Entry(1, dense.codec("<f4")),
    "dense-f16": Entry(3, dense.codec("<f2")),
    "topk-8": Entry(4, topk.codec(8)),
    "topk-4": Entry(5, topk.codec(4)),
}
"""Every codec by name."""
NAMES = tuple(REGISTRY)
WIRE_IDS = {name: entry.wire_id for name, entry in REGISTRY.items()}


def codec_for(choice: CodecChoice) -> Codec:
    """The codec that a task asks for.

    >>> codec_for(CodecChoice(name="dense-f32")).wire_id
    1

    Args:
        choice: name and density.

    Raises:
        RemoteProtocolError: there is no codec of this name.
    """
    entry = REGISTRY.get(choice.name)
    if entry is None:
        msg = f"expected one of the codecs {', '.join(NAMES)}, got {choice.name[:80]!r}"
        raise RemoteProtocolError(msg, code="codec")
    write, read = entry.family(choice.density)
    return Codec(choice.name, entry.wire_id, _of_finite(write), read)


def _of_finite(write: Write) -> Write:
    """Refuse updates that are not finite."""

    def checked(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> Encoded:
        if delta.shape != (layout.size,) or not np.isfinite(delta).all():
            msg = f"expected a finite update of shape ({layout.size},), got {delta.shape}"
            raise LocalProtocolError(msg)
        return write(delta, layout, rng)

    return checked
