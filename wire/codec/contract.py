"""The codec interface: one function that writes an update, and one that reads it.

Each codec has a module that provides a *family*: a function from a task's choices to this pair. One line of the
registry (:mod:`nightjar.wire.codec.codecs`) gives the codec a name and a wire id. Randomness is an argument and state
is a result, as in optax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nightjar.wire.codec.sparsify import Sparse
from nightjar.wire.parameters import ParameterLayout, Vector


class Encoded(NamedTuple):
    """An encoded update."""

    payload: Callable[[], bytes]  # writes the bytes, which takes most of the time; call it once
    sent: Sparse  # the update that the receiver will decode


class Received(NamedTuple):
    """A payload whose values are valid; positions are decoded only when the update is requested."""

    norm: float  # L2 norm of the values
    update: Callable[[], Sparse]  # decodes the update. Raises RemoteProtocolError on invalid positions


Write = Callable[[Vector, ParameterLayout, np.random.Generator], Encoded]
"""(delta (n,) float32, layout, rng) -> encoded update."""
Read = Callable[[bytes, ParameterLayout], Received]
"""(payload, layout) -> received update. Raises RemoteProtocolError if the payload is invalid, or has more values than
the task asked for."""
Family = Callable[[float], tuple[Write, Read]]
"""Density -> the pair of functions."""


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to write an update."""

    name: str  # name in the coordinator's configuration
    wire_id: int  # id in the report
    write: Write  # see :data:`Write`. Raises LocalProtocolError on a delta that is not finite
    read: Read  # see :data:`Read`

    def encode(self, delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> bytes:
        """Encode an update; returns the payload only."""
        return self.write(delta, layout, rng).payload()

    def decode(self, payload: bytes, layout: ParameterLayout) -> Sparse:
        """Decode the whole update."""
        return self.read(payload, layout).update()
