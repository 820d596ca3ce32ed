"""The registry of named codecs, which turn an update into the payload of a report.

A codec is two functions (:mod:`nightjar.wire.codec.contract`) and a wire id. Its stages
(:mod:`nightjar.wire.codec.sparsify`, :mod:`nightjar.wire.codec.quantize`, :mod:`nightjar.wire.codec.modelled`) are
independent of each other.

=====  ===========  ===========================================================================================
id     name         payload
=====  ===========  ===========================================================================================
1      dense-f32    n values, little-endian float32
3      dense-f16    n values, little-endian float16
4      topk-8       the k largest entries: 8 bits on a uniform grid, stochastic rounding; entropy-coded
5      topk-4       the k largest entries: 4 bits on a logarithmic grid, nearest point; entropy-coded
6      sampled-4    k entries drawn by size, unbiased: 4 bits on a logarithmic grid, stochastic; entropy-coded
=====  ===========  ===========================================================================================

Another package brings a codec by the entry point ``nightjar.codecs``: an :class:`Entry` whose id is from
:data:`OTHERS_FROM` to 254. When they check in, devices name all codecs that they have but the :data:`FIRST`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightjar.wire.codec import dense, sampled, topk
from nightjar.wire.codec.contract import Codec, Encoded, Family, Write
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, Vector
from nightjar.wire.plugins import Plugin, found

CODEC_NAME = re.compile(r"[a-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the registry."""

    wire_id: int  # id in the report; never reused for another codec
    family: Family  # creates the codec's functions


REGISTRY: Mapping[str, Entry] = {
    "dense-f32": Entry(1, dense.codec("<f4")),
    "dense-f16": Entry(3, dense.codec("<f2")),
    "topk-8": Entry(4, topk.codec(8)),
    "topk-4": Entry(5, topk.codec(4)),
    "sampled-4": Entry(6, sampled.codec),
}
"""Our own codecs by name."""
FIRST = ("dense-f32", "dense-f16", "topk-8", "topk-4")
"""Those that every agent has: the first agents did not name them, so no agent does."""
BOUND_SUM = "bound-sum"
"""No codec: what devices name that join secure sums whose name binds their orders."""
GROUP = "nightjar.codecs"
OTHERS_FROM, OTHERS_TO = 128, 254
"""Wire ids for codecs of other packages."""
NAMES = tuple(REGISTRY)
WIRE_IDS = {name: entry.wire_id for name, entry in REGISTRY.items()}


def codec_for(choice: CodecChoice) -> Codec:
    """The codec that a task asks for.

    >>> codec_for(CodecChoice(name="dense-f32")).wire_id
    1

    Raises:
        RemoteProtocolError: there is no codec of this name.
    """
    plugin = installed().get(choice.name)
    if plugin is None or plugin.fault:
        msg = f"expected one of the codecs {', '.join(usable())}, got {choice.name[:80]!r}"
        raise RemoteProtocolError(msg, code="codec")
    entry: Entry = plugin.value
    write, read = entry.family(choice.density)
    return Codec(choice.name, entry.wire_id, _of_finite(write), read)


@functools.cache
def installed() -> dict[str, Plugin]:
    """All codecs of this installation by name, also those that cannot be used."""
    taken = set(WIRE_IDS.values())

    def fault(name: str, value: Any) -> str:
        if not CODEC_NAME.fullmatch(name):
            return f"expected a name that matches {CODEC_NAME.pattern}, got {name!r}"
        if name == BOUND_SUM:
            return f"expected a name that is not taken, got {name!r}"
        if not isinstance(value, Entry) or value.wire_id not in range(OTHERS_FROM, OTHERS_TO + 1):
            return f"expected a wire.codec.Entry with an id from {OTHERS_FROM} to {OTHERS_TO}, got {value!r}"[:300]
        if value.wire_id in taken:
            return f"the wire id {value.wire_id} is taken by another codec"
        taken.add(value.wire_id)
        return ""

    return found(GROUP, REGISTRY, fault)


def usable() -> tuple[str, ...]:
    """The names of the codecs that can be used here: our own first."""
    return tuple(name for name, plugin in installed().items() if not plugin.fault)


def to_name() -> tuple[str, ...]:
    """What this installation has beyond the :data:`FIRST`, sorted; devices name it when they check in."""
    return tuple(sorted({*usable(), BOUND_SUM} - set(FIRST)))


def name_needed(name: str, *, summed: bool) -> str:
    """What a device must name for a task with this codec, or with secure sums; empty if every device has it."""
    if summed:
        return BOUND_SUM
    return "" if name in FIRST else name


def _of_finite(write: Write) -> Write:
    """Refuse updates that are not finite."""

    def checked(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> Encoded:
        if delta.shape != (layout.size,) or not np.isfinite(delta).all():
            msg = f"expected a finite update of shape ({layout.size},), got {delta.shape}"
            raise LocalProtocolError(msg)
        return write(delta, layout, rng)

    return checked
