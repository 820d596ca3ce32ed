"""The dense codecs: all values as little-endian floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from nightjar.wire.codec.contract import Encoded, Family, Read, Received, Write
from nightjar.wire.codec.fields import refuse
from nightjar.wire.codec.sparsify import Sparse
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, Vector


def codec(kind: str) -> Family:
    """The dense codec for a numpy type: ``<f4`` or ``<f2``."""

    def write(delta: Vector, layout: ParameterLayout, _rng: np.random.Generator) -> Encoded:
        largest = np.float32(np.finfo(kind).max)
        if not (np.abs(delta) <= largest).all():
            msg = f"an update beyond {largest:g} does not fit {8 * np.dtype(kind).itemsize} bits; use dense-f32"
            raise LocalProtocolError(msg)
        values = delta.astype(kind)
        return Encoded(values.tobytes, _whole(values, layout))

    def read(payload: bytes, layout: ParameterLayout) -> Received:
        expected = np.dtype(kind).itemsize * layout.size
        if len(payload) != expected:
            refuse(f"a dense update of this model has {expected} bytes, got {len(payload)}")
        values = np.frombuffer(payload, kind)
        if not np.isfinite(values).all():
            msg = "an update holds a value that is not finite"
            raise RemoteProtocolError(msg, code="not-finite")
        # Not linalg.norm, because waking the BLAS threads costs more than the sum itself.
        norm = float(np.sqrt(np.square(values, dtype=np.float64).sum()))
        return Received(norm, lambda: _whole(values, layout))

    def family(_density: float) -> tuple[Write, Read]:
        return write, read

    return family


def _whole(values: Any, layout: ParameterLayout) -> Sparse:
    return Sparse(layout.size, np.arange(layout.size, dtype=np.int64), values.astype(np.float32, copy=False))
