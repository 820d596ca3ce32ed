"""The layout of a model's parameters in one flat vector: names, shapes, order, fingerprint.

A *layout* maps each coordinate of the flat vector to an entry of a tensor. Both ends must use the same layout, so every
report carries its fingerprint. A layout holds no values.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError

Vector = npt.NDArray[np.float32]
"""(n,) float32: all parameters of a model, or the difference of two such vectors."""

MAX_PARAMETERS = 1 << 28
"""A larger layout is refused: no keyboard model is near this size, and a hostile layout could exhaust memory."""


class ParameterSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor: its name and its shape in C order."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


class ParameterLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True, dict=True):
    """The ordered tensors of a model.

    >>> layout = ParameterLayout((ParameterSpec("embedding", (3, 2)), ParameterSpec("bias", (4,))))
    >>> layout.size
    10
    >>> [(s.name, a, b) for s, a, b in layout.spans()]
    [('embedding', 0, 6), ('bias', 6, 10)]
    """

    tensors: tuple[ParameterSpec, ...]

    def __post_init__(self) -> None:
        """Refuse impossible layouts.

        Raises:
            RemoteProtocolError: there are duplicate names, non-positive dimensions, or too many parameters.
        """
        names = [t.name for t in self.tensors]
        if len(set(names)) != len(names):
            msg = f"parameter names must be unique, got {names}"
            raise RemoteProtocolError(msg, code="layout")
        if any(d < 1 for t in self.tensors for d in t.shape):
            msg = "every dimension of a parameter must be at least 1"
            raise RemoteProtocolError(msg, code="layout")
        if self.size > MAX_PARAMETERS:
            msg = f"a layout may have at most {MAX_PARAMETERS} parameters, got {self.size}"
            raise RemoteProtocolError(msg, code="layout")

    @functools.cached_property
    def size(self) -> int:
        """n, the number of parameters in the flat vector."""
        return sum(tensor.size for tensor in self.tensors)

    def spans(self) -> list[tuple[ParameterSpec, int, int]]:
        """Each tensor with the half-open range [start, stop) that it occupies in the flat vector."""
        spans, start = [], 0
        for tensor in self.tensors:
            spans.append((tensor, start, start + tensor.size))
            start += tensor.size
        return spans

    @functools.cached_property
    def fingerprint(self) -> str:
        """First 16 hex digits of the sha256 of the canonical JSON of the layout.

        >>> ParameterLayout((ParameterSpec("w", (2, 2)),)).fingerprint
        '6bab513b9cc72c79'
        """
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]

    def flatten(self, tensors: Mapping[str, npt.ArrayLike]) -> Vector:
        """Join the tensors of the layout, by name, into the flat vector (n,) float32.

        Raises:
            LocalProtocolError: a name or a shape does not match the layout.
        """
        if set(tensors) != {t.name for t in self.tensors}:
            msg = f"expected tensors {[t.name for t in self.tensors]}, got {sorted(tensors)}"
            raise LocalProtocolError(msg)
        parts = []
        for spec in self.tensors:
            array = np.asarray(tensors[spec.name], np.float32)
            if array.shape != spec.shape:
                msg = f"{spec.name}: expected shape {spec.shape}, got {array.shape}"
                raise LocalProtocolError(msg)
            parts.append(array.ravel())
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def unflatten(self, vector: Vector) -> dict[str, npt.NDArray[np.float32]]:
        """Cut the flat vector (n,) float32 into views of the tensors' shapes, by name.

        Raises:
            LocalProtocolError: the vector has the wrong length.
        """
        if vector.shape != (self.size,):
            msg = f"expected a vector of shape ({self.size},), got {vector.shape}"
            raise LocalProtocolError(msg)
        return {spec.name: vector[a:b].reshape(spec.shape) for spec, a, b in self.spans()}


def weights_to_bytes(vector: Vector) -> bytes:
    """The weights artifact: little-endian float32, nothing else.

    >>> weights_to_bytes(np.array([1.0], np.float32)).hex()
    '0000803f'
    """
    return vector.astype("<f4", copy=False).tobytes()


def weights_from_bytes(data: bytes, layout: ParameterLayout) -> Vector:
    """Inverse of :func:`weights_to_bytes`: (n,) float32, writable.

    Raises:
        RemoteProtocolError: the length is wrong, or a value is not finite.
    """
    if len(data) != 4 * layout.size:
        msg = f"weights of this model have {4 * layout.size} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="weights-length")
    vector = np.frombuffer(data, "<f4").astype(np.float32)
    if not np.isfinite(vector).all():
        msg = "weights hold a value that is not finite"
        raise RemoteProtocolError(msg, code="not-finite")
    return vector
