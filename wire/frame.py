"""Frames: the binary format of reports and their chunks.

Every integer is little-endian. A frame is::

    offset  size  field
    0       2     magic, "NJ"
    2       1     format version, 1
    3       1     kind: 1 report, 2 chunk, 17 report with a local evaluation before its body, 18 report with a local
                  evaluation and a keyboard evaluation before its body
    4       4     body length b, unsigned
    8       b     body
    8+b     4     CRC-32 (zlib) of all bytes before it

A *report* that fits into one MQTT publish is sent as one frame. A larger one is split into numbered *chunks*, each a
frame of its own, which may arrive in any order and more than once. This module neither stores nor sends anything.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import msgspec

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError

MAGIC = b"NJ"
FORMAT_VERSION = 1
KIND_REPORT = 1
KIND_CHUNK = 2
KIND_EVALUATED_REPORT = 17
KIND_KEYBOARD_REPORT = 18

MAX_PUBLISH_BYTES = 120 * 1024
"""Largest MQTT payload we publish: AWS IoT refuses above 128 KB."""
MAX_PACKET_BYTES = 160 * 1024
"""Largest MQTT packet that a broker should accept: ours are smaller."""
MAX_REPORT_BYTES = 64 * 1024 * 1024
"""Largest report that is reassembled from chunks: 11 times the dense update of the largest model."""

MAX_ROUND = 2**53
"""Largest round number; fits JSON and SQL integers."""

_HEAD = struct.Struct("<2sBBI")
_CRC = struct.Struct("<I")
OVERHEAD_BYTES = _HEAD.size + _CRC.size

NO_UPDATE = 0
"""Codec id of a report that holds only an evaluation and has an empty payload."""

MASKED_UPDATE = 255
"""Codec id of a report that belongs to a secure sum: its payload is a ``MaskedUpdate``, its figures are zero."""

FINGERPRINT_BYTES = 8
_REPORT = struct.Struct("<QHBx8sIIIff")
_EVALUATION = struct.Struct("<IIIIIff")
_KEYBOARD = struct.Struct("<IIII")
_CHUNK = struct.Struct("<QHHHxxI")
CHUNK_PART_BYTES = MAX_PUBLISH_BYTES - OVERHEAD_BYTES - _CHUNK.size


@dataclass(frozen=True, slots=True)
class LocalEvaluation:
    """How well the model predicted a device's held-out words before and after training. Contains numbers only.

    Of the ``counted`` words, so many were predicted first or among the first three. Losses are means per target, nats.
    """

    counted: int
    top1_before: int
    top3_before: int
    top1_after: int
    top3_after: int
    loss_before: float
    loss_after: float


@dataclass(frozen=True, slots=True)
class KeyboardEvaluation:
    """How many keystrokes the device's whole keyboard saves on its held-out words, with two versions of the model.

    Attributes:
        letters: keystrokes without suggestions, at least 1.
        saved: keystrokes that it saves with the version that the report is about.
        announced: number of the version that the keyboard has.
        saved_announced: keystrokes that it saves with that version, on the same words.
    """

    letters: int
    saved: int
    announced: int
    saved_announced: int


class Report(msgspec.Struct, frozen=True):
    """One device's update with the data that the coordinator needs to judge it.

    (round, device, attempt) is the idempotency key. There is an evaluation if the plan asks for it and the device has
    enough held-out messages; with it a keyboard evaluation, if the plan asks for that and the device has a keyboard.
    """

    round: int  # number of the round
    attempt: int  # number of this device's attempt in this round, from 1
    codec: int  # wire id of the payload's codec; :data:`NO_UPDATE` if there is no update
    layout: str  # fingerprint of the parameter layout, 16 hex digits
    version: int  # model version that the delta is relative to
    num_examples: int  # number of next-word targets trained on (one pass); the weight before capping
    steps: int  # number of optimizer steps
    loss: float  # mean training loss per target over the last epoch, nats
    seconds: float  # time spent in training
    payload: bytes  # the encoded update
    evaluation: LocalEvaluation | None = None  # on the held-out messages
    keyboard: KeyboardEvaluation | None = None  # on the same; only beside an evaluation


@dataclass(frozen=True, slots=True)
class Chunk:
    """A numbered part of a report frame of ``total_bytes``; the index is from 0."""

    round: int
    attempt: int
    index: int
    count: int
    total_bytes: int
    part: bytes


def encode_report(report: Report) -> bytes:
    """Encode a report as one frame.

    Raises:
        LocalProtocolError: a field is out of range, a keyboard evaluation comes without an evaluation, or the report is
            too large.
    """
    looked, keyboard = report.evaluation, report.keyboard
    if keyboard is not None and looked is None:
        msg = "a report with a keyboard evaluation has an evaluation, too"
        raise LocalProtocolError(msg)
    try:
        fingerprint = bytes.fromhex(report.layout)
        header = _REPORT.pack(
            report.round,
            report.attempt,
            report.codec,
            fingerprint,
            report.version,
            report.num_examples,
            report.steps,
            report.loss,
            report.seconds,
        )
        if keyboard is not None:
            header = _KEYBOARD.pack(*dataclasses.astuple(keyboard)) + header
        if looked is not None:
            header = _EVALUATION.pack(*dataclasses.astuple(looked)) + header
    except (struct.error, ValueError, OverflowError) as error:
        msg = f"a field of the report does not fit its place: {error}"
        raise LocalProtocolError(msg) from error
    if len(fingerprint) != FINGERPRINT_BYTES:
        msg = f"a layout fingerprint has {2 * FINGERPRINT_BYTES} hex digits, got {report.layout!r}"
        raise LocalProtocolError(msg)
    if len(header) + len(report.payload) > MAX_REPORT_BYTES - OVERHEAD_BYTES:
        msg = f"a report may have {MAX_REPORT_BYTES} bytes, its payload alone has {len(report.payload)}"
        raise LocalProtocolError(msg)
    kind = KIND_REPORT if looked is None else KIND_EVALUATED_REPORT if keyboard is None else KIND_KEYBOARD_REPORT
    return _frame(kind, header + report.payload)


def decode(data: bytes) -> Report | Chunk:
    """Decode a frame from the network.

    Raises:
        RemoteProtocolError: the data is not exactly one complete, uncorrupted frame of a known kind with valid fields.
    """
    kind, body = _unframe(data)
    if kind == KIND_REPORT:
        return _report(body)
    if kind == KIND_CHUNK:
        return _chunk(body)
    if kind == KIND_EVALUATED_REPORT:
        return msgspec.structs.replace(_report(body[_EVALUATION.size :]), evaluation=_evaluation(body))
    if kind == KIND_KEYBOARD_REPORT:
        report = _report(body[_EVALUATION.size + _KEYBOARD.size :])
        return msgspec.structs.replace(report, evaluation=_evaluation(body), keyboard=_keyboard(body))
    reports = f"{KIND_REPORT}, {KIND_EVALUATED_REPORT} or {KIND_KEYBOARD_REPORT} (report)"
    msg = f"expected frame kind {reports} or {KIND_CHUNK} (chunk), got {kind}"
    raise RemoteProtocolError(msg, code="frame-kind")


def publishes(frame: bytes, round_number: int, attempt: int) -> list[bytes]:
    """The MQTT payloads that carry a report frame, in order: the frame itself, or its chunks.

    >>> publishes(b"small", 1, 1)
    [b'small']
    >>> [len(p) for p in publishes(bytes(200_000), 1, 1)]
    [122880, 77184]
    """
    if len(frame) <= MAX_PUBLISH_BYTES:
        return [frame]
    count = chunks_of(len(frame))
    return [
        _frame(
            KIND_CHUNK,
            _CHUNK.pack(round_number, attempt, index, count, len(frame))
            + frame[index * CHUNK_PART_BYTES : (index + 1) * CHUNK_PART_BYTES],
        )
        for index in range(count)
    ]


def chunks_of(size_bytes: int) -> int:
    """Number of chunks of a report frame of this length."""
    return math.ceil(size_bytes / CHUNK_PART_BYTES)


def join(chunks: Mapping[int, Chunk]) -> bytes:
    """Reassemble a report frame from its chunks by index.

    Raises:
        RemoteProtocolError: chunks are missing or do not belong together.
    """
    if not chunks:
        msg = "no chunks to join"
        raise RemoteProtocolError(msg, code="chunks")
    first = next(iter(chunks.values()))
    kin = {(c.round, c.attempt, c.count, c.total_bytes) for c in chunks.values()}
    if len(kin) != 1 or set(chunks) != set(range(first.count)):
        msg = f"expected chunks 0 to {first.count - 1} of one report, got {sorted(chunks)[:20]} of {len(kin)} report(s)"
        raise RemoteProtocolError(msg, code="chunks")
    frame = b"".join(chunks[index].part for index in range(first.count))
    if len(frame) != first.total_bytes:
        msg = f"the chunks say {first.total_bytes} bytes and hold {len(frame)}"
        raise RemoteProtocolError(msg, code="chunks")
    return frame


def _frame(kind: int, body: bytes) -> bytes:
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, kind, len(body)) + body
    return head + _CRC.pack(crc32(head))


def _unframe(data: bytes) -> tuple[int, memoryview]:
    if len(data) < OVERHEAD_BYTES:
        msg = f"a frame has at least {OVERHEAD_BYTES} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="truncated")
    magic, version, kind, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        msg = f"a frame begins with {MAGIC!r}, got {magic!r}"
        raise RemoteProtocolError(msg, code="magic")
    if version != FORMAT_VERSION:
        msg = f"expected frame format version {FORMAT_VERSION}, got {version}"
        raise RemoteProtocolError(msg, code="format-version")
    if len(data) != length + OVERHEAD_BYTES:
        msg = f"the frame says a body of {length} bytes, {len(data) - OVERHEAD_BYTES} came"
        raise RemoteProtocolError(msg, code="truncated")
    view = memoryview(data)  # only the payload is copied: a burst has thousands of frames
    if crc32(view[: -_CRC.size]) != _CRC.unpack_from(data, len(data) - _CRC.size)[0]:
        msg = "the frame's CRC does not match its bytes"
        raise RemoteProtocolError(msg, code="crc")
    return kind, view[_HEAD.size : -_CRC.size]


def _report(body: memoryview) -> Report:
    if len(body) < _REPORT.size:
        msg = f"a report has at least {_REPORT.size} bytes, got {len(body)}"
        raise RemoteProtocolError(msg, code="truncated")
    number, attempt, codec, layout, version, num_examples, steps, loss, seconds = _REPORT.unpack_from(body)
    if number > MAX_ROUND or attempt < 1 or not (math.isfinite(loss) and math.isfinite(seconds)):
        msg = f"expected a round, attempt >= 1, finite loss and seconds, got {number}, {attempt}, {loss}, {seconds}"
        raise RemoteProtocolError(msg, code="report-header")
    payload = bytes(body[_REPORT.size :])
    return Report(number, attempt, codec, layout.hex(), version, num_examples, steps, loss, seconds, payload)


def _evaluation(body: memoryview) -> LocalEvaluation:
    evaluation = LocalEvaluation(*_EVALUATION.unpack_from(body))  # a body that holds a report is long enough
    recalls = ((evaluation.top1_before, evaluation.top3_before), (evaluation.top1_after, evaluation.top3_after))
    in_order = all(top1 <= top3 <= evaluation.counted for top1, top3 in recalls)
    if not (in_order and math.isfinite(evaluation.loss_before) and math.isfinite(evaluation.loss_after)):
        msg = f"expected top1 <= top3 <= counted and finite losses, got {evaluation}"
        raise RemoteProtocolError(msg, code="report-evaluation")
    return evaluation


def _keyboard(body: memoryview) -> KeyboardEvaluation:
    keyboard = KeyboardEvaluation(*_KEYBOARD.unpack_from(body, _EVALUATION.size))
    if keyboard.letters < 1 or max(keyboard.saved, keyboard.saved_announced) > keyboard.letters:
        msg = f"expected letters, and at most as many keystrokes saved, got {keyboard}"
        raise RemoteProtocolError(msg, code="report-evaluation")
    return keyboard


def _chunk(body: memoryview) -> Chunk:
    if len(body) <= _CHUNK.size:
        msg = f"a chunk has more than {_CHUNK.size} bytes, got {len(body)}"
        raise RemoteProtocolError(msg, code="truncated")
    number, attempt, index, count, total = _CHUNK.unpack_from(body)
    part = bytes(body[_CHUNK.size :])
    # Every chunk but the last is full, so count, total and the part's length follow from one another.
    expected = CHUNK_PART_BYTES if index < count - 1 else total - CHUNK_PART_BYTES * (count - 1)
    if (
        number > MAX_ROUND
        or attempt < 1
        or index >= count
        or total > MAX_REPORT_BYTES
        or count != chunks_of(total)
        or len(part) != expected
    ):
        msg = f"chunk {index} of {count} with {len(part)} bytes cannot be part of a report of {total} bytes"
        raise RemoteProtocolError(msg, code="chunks")
    return Chunk(number, attempt, index, count, total, part)
