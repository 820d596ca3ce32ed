"""The named codecs: how an update becomes the payload of a report.

A codec is two pure functions and a wire id. Stages (:mod:`sparsify`, :mod:`quantize`, :mod:`positions`) are composed
here and nowhere else; randomness and error-feedback state are arguments and results (optax's way).

=====  ===========  ====================================================================
id     name         payload
=====  ===========  ====================================================================
1      dense-f32    n values, little-endian float32
2      topk-8       k, scale, k levels of 8 bits, positions coded with row structure
=====  ===========  ====================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from wire.codec.positions import decode_positions, encode_positions
from wire.codec.quantize import Quantized, dequantize_8bit, quantize_8bit
from wire.codec.sparsify import Sparse, count_for, top_k
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector

_TOPK_HEAD = struct.Struct("<If")


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to write an update.

    Attributes:
        name: as in the coordinator's configuration.
        wire_id: as in the report.
        encode: (delta (n,) float32, layout, rng) -> payload. Raises LocalProtocolError on a delta that is not finite.
        decode: (payload, layout) -> update. Raises RemoteProtocolError on anything that encode cannot have written.
    """

    name: str
    wire_id: int
    encode: Callable[[Vector, ParameterLayout, np.random.Generator], bytes]
    decode: Callable[[bytes, ParameterLayout], Sparse]


def codec_for(choice: CodecChoice) -> Codec:
    """The codec that a task asks for.

    >>> codec_for(CodecChoice(name="dense-f32")).wire_id
    1

    Raises:
        RemoteProtocolError: no codec of that name.
    """
    match choice.name:
        case "dense-f32":
            return Codec("dense-f32", 1, _encode_dense, _decode_dense)
        case "topk-8":
            return Codec("topk-8", 2, partial(_encode_topk8, density=choice.density), _decode_topk8)
        case other:
            msg = f"expected one of the codecs {', '.join(NAMES)}, got {other[:80]!r}"
            raise RemoteProtocolError(msg, code="codec")


NAMES = ("dense-f32", "topk-8")
"""Every codec by name, in the order of the wire ids."""


def encode_with_feedback(
    codec: Codec, delta: Vector, residual: Vector, layout: ParameterLayout, rng: np.random.Generator
) -> tuple[bytes, Vector]:
    """Error feedback: send ``delta + residual``, and keep what the codec left out for the next time.

    The returned residual must be adopted only when the receipt says *accepted*; until then the old one stands.

    Args:
        codec: any codec.
        delta: (n,) float32, trained minus base.
        residual: (n,) float32, what earlier reports left out; zeros at first.
        layout: of n parameters.
        rng: source of the codec's rounding.

    Returns:
        The payload, and the next residual: (n,) float32, with ``sent + next = delta + residual``.
    """
    corrected = delta + residual
    payload = codec.encode(corrected, layout, rng)
    sent = codec.decode(payload, layout)
    following = corrected.copy()
    following[sent.indices] -= sent.values
    return payload, following


def _encode_dense(delta: Vector, layout: ParameterLayout, _rng: np.random.Generator) -> bytes:
    _check_delta(delta, layout)
    return delta.astype("<f4", copy=False).tobytes()


def _decode_dense(payload: bytes, layout: ParameterLayout) -> Sparse:
    if len(payload) != 4 * layout.size:
        msg = f"a dense update of this model has {4 * layout.size} bytes, got {len(payload)}"
        raise RemoteProtocolError(msg, code="payload")
    values = np.frombuffer(payload, "<f4").astype(np.float32)
    _check_finite(values)
    return Sparse(layout.size, np.arange(layout.size, dtype=np.int64), values)


def _encode_topk8(delta: Vector, layout: ParameterLayout, rng: np.random.Generator, *, density: float) -> bytes:
    _check_delta(delta, layout)
    sparse = top_k(delta, count_for(density, layout.size))
    quantized = quantize_8bit(sparse.values, rng)
    head = _TOPK_HEAD.pack(sparse.indices.size, quantized.scale)
    return head + quantized.levels.tobytes() + encode_positions(sparse.indices, layout)


def _decode_topk8(payload: bytes, layout: ParameterLayout) -> Sparse:
    if len(payload) < _TOPK_HEAD.size:
        msg = f"a topk-8 update has at least {_TOPK_HEAD.size} bytes, got {len(payload)}"
        raise RemoteProtocolError(msg, code="payload")
    k, scale = _TOPK_HEAD.unpack_from(payload)
    end = _TOPK_HEAD.size + k
    if k > layout.size or len(payload) < end or not 0 <= scale < np.inf:
        msg = f"k = {k} and scale {scale} do not fit a payload of {len(payload)} bytes for {layout.size} parameters"
        raise RemoteProtocolError(msg, code="payload")
    levels = np.frombuffer(payload, np.int8, count=k, offset=_TOPK_HEAD.size)
    if k and int(levels.min()) == -128:
        msg = "level -128 does not exist"
        raise RemoteProtocolError(msg, code="payload")
    indices = decode_positions(payload[end:], layout)
    if indices.size != k:
        msg = f"{k} values came with {indices.size} positions"
        raise RemoteProtocolError(msg, code="payload")
    return Sparse(layout.size, indices, dequantize_8bit(Quantized(levels, np.float32(scale))))


def _check_delta(delta: Vector, layout: ParameterLayout) -> None:
    if delta.shape != (layout.size,) or not np.isfinite(delta).all():
        msg = f"expected a finite update of shape ({layout.size},), got {delta.shape}"
        raise LocalProtocolError(msg)


def _check_finite(values: Vector) -> None:
    if not np.isfinite(values).all():
        msg = "an update holds a value that is not finite"
        raise RemoteProtocolError(msg, code="not-finite")
