"""The named codecs: how an update becomes the payload of a report.

A codec is a few pure functions and a wire id. Its stages (:mod:`sparsify`, :mod:`quantize`, :mod:`modelled`) know
nothing of each other; randomness and error-feedback state are arguments and results (optax's way).

=====  ===========  ===========================================================================================
id     name         payload
=====  ===========  ===========================================================================================
1      dense-f32    n values, little-endian float32
3      dense-f16    n values, little-endian float16
4      topk-8       the k largest entries: 8 bits on a uniform grid, stochastic rounding; entropy-coded
5      topk-4       the k largest entries: 4 bits on a logarithmic grid, nearest point; entropy-coded
6      mask-8       the entries at coordinates that the coordinator chose, 8 bits, always the same length
7      mask-4       the same, 4 bits
=====  ===========  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from wire.codec import masks, topk
from wire.codec.quantize import Ints
from wire.codec.sparsify import Sparse, count_for
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector

Send = Callable[[Vector, ParameterLayout, np.random.Generator], tuple[bytes, Sparse]]
Decode = Callable[[bytes, ParameterLayout], Sparse]
Norm = Callable[[bytes, ParameterLayout], float]


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to write an update.

    Attributes:
        name: as in the coordinator's configuration.
        wire_id: as in the report.
        send: (delta (n,) float32, layout, rng) -> (payload, what decode will read in it). Raises LocalProtocolError on
            a delta that is not finite.
        decode: (payload, layout) -> update. Raises RemoteProtocolError on anything that send cannot have written.
        norm: (payload, layout) -> L2 norm of the values, many times faster than decode because positions are not read.
            Raises RemoteProtocolError on bytes that cannot be values, and on more values than the density allows.
    """

    name: str
    wire_id: int
    send: Send
    decode: Decode
    norm: Norm

    def encode(self, delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> bytes:
        """The payload alone."""
        return self.send(delta, layout, rng)[0]


WIRE_IDS = {"dense-f32": 1, "dense-f16": 3, "topk-8": 4, "topk-4": 5, "mask-8": 6, "mask-4": 7}
NAMES = tuple(WIRE_IDS)
"""Every codec by name, in the order of the wire ids."""
MASKED = frozenset({"mask-8", "mask-4"})
"""Those that need a mask."""


def codec_for(choice: CodecChoice, mask: Ints | None = None) -> Codec:
    """The codec that a task asks for.

    >>> codec_for(CodecChoice(name="dense-f32")).wire_id
    1

    Args:
        choice: name and density.
        mask: (k,) int64, strictly ascending: the coordinates of a masked codec.

    Raises:
        RemoteProtocolError: no codec of that name.
        LocalProtocolError: a masked codec without a mask.
    """
    if choice.name in MASKED and mask is None:
        msg = f"codec {choice.name} needs the mask of the round"
        raise LocalProtocolError(msg)
    density = choice.density
    match choice.name:
        case "dense-f32" | "dense-f16":
            kind = "<f4" if choice.name == "dense-f32" else "<f2"
            send: Send = partial(_send_dense, kind=kind)
            decode: Decode = partial(_decode_dense, kind=kind)
            norm: Norm = partial(_norm_dense, kind=kind)
        case "topk-8" | "topk-4":
            bits = int(choice.name[-1])
            send = partial(topk.send_topk, density=density, bits=bits)
            decode = partial(topk.decode_topk, bits=bits)
            norm = _no_more(partial(topk.norm_topk, bits=bits), density)
        case "mask-8" | "mask-4" if mask is not None:
            bits = int(choice.name[-1])
            send = partial(masks.send_masked, mask=mask, bits=bits)
            decode = partial(masks.decode_masked, mask=mask, bits=bits)
            norm = partial(masks.norm_masked, mask=mask, bits=bits)
        case other:
            msg = f"expected one of the codecs {', '.join(NAMES)}, got {other[:80]!r}"
            raise RemoteProtocolError(msg, code="codec")
    return Codec(choice.name, WIRE_IDS[choice.name], _of_finite(send), decode, norm)


def _no_more(norm: Norm, density: float) -> Norm:
    """Refuse an update with more values than were asked for: ten times the values are ten times the work to decode."""

    def checked(payload: bytes, layout: ParameterLayout) -> float:
        found = norm(payload, layout)
        k, asked = int.from_bytes(payload[:4], "little"), count_for(density, layout.size)
        if k > asked:
            msg = f"expected at most {asked} values at density {density:g}, got {k}"
            raise RemoteProtocolError(msg, code="payload")
        return found

    return checked


def _of_finite(send: Send) -> Send:
    """Refuse updates which are none."""

    def checked(delta: Vector, layout: ParameterLayout, rng: np.random.Generator) -> tuple[bytes, Sparse]:
        if delta.shape != (layout.size,) or not np.isfinite(delta).all():
            msg = f"expected a finite update of shape ({layout.size},), got {delta.shape}"
            raise LocalProtocolError(msg)
        return send(delta, layout, rng)

    return checked


def _send_dense(
    delta: Vector, layout: ParameterLayout, _rng: np.random.Generator, *, kind: str
) -> tuple[bytes, Sparse]:
    largest = float(np.finfo(kind).max)
    if delta.size and float(np.abs(delta).max()) > largest:
        msg = f"an update beyond {largest:g} does not fit {8 * np.dtype(kind).itemsize} bits; use dense-f32"
        raise LocalProtocolError(msg)
    payload = delta.astype(kind).tobytes()
    return payload, _decode_dense(payload, layout, kind=kind)


def _decode_dense(payload: bytes, layout: ParameterLayout, *, kind: str) -> Sparse:
    values = _dense_values(payload, layout, kind).astype(np.float32)
    return Sparse(layout.size, np.arange(layout.size, dtype=np.int64), values)


def _norm_dense(payload: bytes, layout: ParameterLayout, *, kind: str) -> float:
    # Not linalg.norm: waking BLAS threads costs more than the sum itself.
    return float(np.sqrt(np.square(_dense_values(payload, layout, kind).astype(np.float64)).sum()))


def _dense_values(payload: bytes, layout: ParameterLayout, kind: str) -> Vector:
    expected = np.dtype(kind).itemsize * layout.size
    if len(payload) != expected:
        msg = f"a dense update of this model has {expected} bytes, got {len(payload)}"
        raise RemoteProtocolError(msg, code="payload")
    values: Vector = np.frombuffer(payload, kind)
    if not np.isfinite(values).all():
        msg = "an update holds a value that is not finite"
        raise RemoteProtocolError(msg, code="not-finite")
    return values
