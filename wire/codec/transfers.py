"""Transfer files: weights for a device, either in full or as the difference from a version that the device has.

In every form the device ends up with the same float32 bytes and the same sha256. Format of a *transfer* file::

    offset  size  field
    0       4     magic, "NJT1"
    4       1     form
    5       8     layout fingerprint
    13      ...   body

=====  =========  ==============================================================================================
form   name       body
=====  =========  ==============================================================================================
1      half       n float16: for weights that a coordinator rounded to float16 first; we read it but never write it
2      exact      which weights changed, and by how many float32 steps; relative to any other version
3      topk-8     the payload of codec topk-8; the weights are base + update, added in float32
4      topk-4     the payload of codec topk-4; the weights are base + update, added in float32
=====  =========  ==============================================================================================

Forms 3 and 4 are exact too: a coordinator that uses them publishes the weights that a device will compute, and keeps
the rest for the next version (:mod:`nightjar.coordinator.learning.downlink`).
"""

from __future__ import annotations

import struct

import numpy as np

from nightjar.wire.codec import modelled
from nightjar.wire.codec.quantize import Ints
from nightjar.wire.codec.topk import decode_topk
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, Vector

MAGIC = b"NJT1"
HALF, EXACT, TOPK_8, TOPK_4 = 1, 2, 3, 4

_HEAD = struct.Struct("<4sB8s")
_EXACT = struct.Struct("<IB")
_MOST_STEPS = 2**32 - 1
"""Bound on the number of steps from the lowest float32 to the highest."""
_SIGN = 1 << 31
_LARGEST = 0x7F7FFFFF
"""Step number of the largest float32."""
_ZERO_GAP = 1 << 13
"""Keeps the step numbers of float16 values multiples of 2**13 on both sides of zero."""


def exact_transfer(base: Vector, weights: Vector, layout: ParameterLayout) -> bytes:
    """Encode the bit-exact difference of new weights from the version that a device has; both (n,) float32, finite."""
    changed = np.flatnonzero(weights.view(np.uint32) != base.view(np.uint32))
    moved = _steps(weights[changed]) - _steps(base[changed])
    shift = _common_zeros(moved)
    coded = modelled.encode(changed, moved >> shift, layout, _MOST_STEPS)
    return _head(EXACT, layout) + _EXACT.pack(changed.size, shift) + coded.data


def topk_transfer(form: int, payload: bytes, layout: ParameterLayout) -> bytes:
    """Wrap a payload of codec topk-8 or topk-4 as a transfer."""
    return _head(form, layout) + payload


def apply_transfer(data: bytes, base: Vector | None, layout: ParameterLayout) -> Vector:
    """Compute the weights (n,) float32 that a transfer from the network encodes.

    The base is the version that it was made against; None for a transfer that needs none.

    Raises:
        RemoteProtocolError: the data is not a transfer for this layout, or it needs a base and there is none.
    """
    if len(data) < _HEAD.size:
        msg = f"a transfer has at least {_HEAD.size} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="transfer")
    magic, form, fingerprint = _HEAD.unpack_from(data)
    if magic != MAGIC or fingerprint.hex() != layout.fingerprint or not HALF <= form <= TOPK_4:
        msg = f"expected a transfer for layout {layout.fingerprint}, got {magic!r}, form {form}, {fingerprint.hex()}"
        raise RemoteProtocolError(msg, code="transfer")
    body = data[_HEAD.size :]
    if form == HALF:
        return _whole(body, layout)
    if base is None or base.shape != (layout.size,):
        msg = f"a transfer of form {form} needs the {layout.size} weights that it was made against"
        raise RemoteProtocolError(msg, code="transfer")
    try:
        return _stepped(body, base, layout) if form == EXACT else _added(form, body, base, layout)
    except RemoteProtocolError as error:
        msg = f"a transfer of form {form} cannot be read: {error}"
        raise RemoteProtocolError(msg, code="transfer") from error


def _head(form: int, layout: ParameterLayout) -> bytes:
    return _HEAD.pack(MAGIC, form, bytes.fromhex(layout.fingerprint))


def _added(form: int, body: bytes, base: Vector, layout: ParameterLayout) -> Vector:
    update = decode_topk(body, layout, bits=8 if form == TOPK_8 else 4)
    weights = base.copy()
    with np.errstate(over="ignore"):
        weights[update.indices] += update.values
    if not np.isfinite(weights).all():
        raise _beyond()
    return weights


def _whole(body: bytes, layout: ParameterLayout) -> Vector:
    if len(body) != 2 * layout.size:
        msg = f"expected {2 * layout.size} bytes of float16, got {len(body)}"
        raise RemoteProtocolError(msg, code="transfer")
    half = np.frombuffer(body, "<f2")
    if not np.isfinite(half).all():
        raise _beyond()
    return half.astype(np.float32)


def _stepped(body: bytes, base: Vector, layout: ParameterLayout) -> Vector:
    if len(body) < _EXACT.size:
        msg = f"expected at least {_EXACT.size} bytes, got {len(body)}"
        raise RemoteProtocolError(msg, code="transfer")
    count, shift = _EXACT.unpack_from(body)
    if count > layout.size or shift > 31:
        msg = f"{count} changes, shifted by {shift}, do not fit {layout.size} parameters"
        raise RemoteProtocolError(msg, code="transfer")
    changed, moved = modelled.decode(body[_EXACT.size :], count, layout, most=_MOST_STEPS)
    places = _steps(base)
    places[changed] += moved << shift
    outside = (places > _LARGEST) | (places < -_LARGEST - _ZERO_GAP) | ((places < 0) & (places > -_ZERO_GAP))
    if bool(outside.any()):
        raise _beyond()
    return _from_steps(places)


def _beyond() -> RemoteProtocolError:
    return RemoteProtocolError("a weight would leave the range of float32", code="transfer")


def _steps(weights: Vector) -> Ints:
    """The step number of each float among all float32: neighbours differ by 1, except for -0.0 and 0.0."""
    bits = weights.astype("<f4").view("<u4").astype(np.int64)
    return np.where(bits < _SIGN, bits, _SIGN - bits - _ZERO_GAP)


def _from_steps(places: Ints) -> Vector:
    bits = np.where(places >= 0, places, _SIGN - places - _ZERO_GAP)
    return bits.astype("<u4").view("<f4").astype(np.float32)


def _common_zeros(numbers: Ints) -> int:
    """Number of low bits that are zero in all numbers: at least the 13 that float16 lacks if weights are float16."""
    together = int(np.bitwise_or.reduce(numbers)) if numbers.size else 0
    return min((together & -together).bit_length() - 1, 31) if together else 0
