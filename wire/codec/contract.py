"""What a codec is: one function that writes an update, and one that reads it.

A codec lives in one module, which gives a *family*: a function from what a task chooses to that pair. One line of the
registry (:mod:`wire.codec.codecs`) gives it a name and a wire id. Randomness is an argument, state a result (optax's
way).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wire.codec.quantize import Ints
from wire.codec.sparsify import Sparse
from wire.parameters import ParameterLayout, Vector


class Encoded(NamedTuple):
    """An update as it travels.

    Attributes:
        payload: the bytes.
        sent: what will be read in them.
    """

    payload: bytes
    sent: Sparse


class Received(NamedTuple):
    """A payload whose values are sound; positions are read only when the update is asked for.

    Attributes:
        norm: L2 norm of the values.
        update: the update. Raises RemoteProtocolError on positions that cannot have been written.
    """

    norm: float
    update: Callable[[], Sparse]


Write = Callable[[Vector, ParameterLayout, np.random.Generator], Encoded]
"""(delta (n,) float32, layout, rng) -> payload."""
Read = Callable[[bytes, ParameterLayout], Received]
"""(payload, layout) -> what it holds. Raises RemoteProtocolError on bytes that no codec of this kind wrote, and on more
values than were asked for."""
Family = Callable[[float, Ints], tuple[Write, Read]]
"""(density, mask (k,) int64, empty for codecs without one) -> the pair."""


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to write an update.

    Attributes:
        name: as in the coordinator's configuration.
        wire_id: as in the report.
        write: see :data:`Write`. Raises LocalProtocolError on a delta that is not finite.
        read: see :data:`Read`.
    """

    name: str
    wire_id: int
    write: Write
    read: Read

    def encode(self, delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> bytes:
        """The payload alone."""
        return self.write(delta, layout, rng).payload

    def decode(self, payload: bytes, layout: ParameterLayout) -> Sparse:
        """The whole update."""
        return self.read(payload, layout).update()
