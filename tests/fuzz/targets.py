"""What is fuzzed: every function that reads bytes from the network, with valid bytes to begin from.

A target takes the part of a message that a fuzzer changes, repairs what would stop it at the door (the frame's length
and CRC), and reads it. It may return or raise RemoteProtocolError; anything else, and an update that no encoder can
have sent, is a defect. Reports and transfers are also shown to the independent decoder of the tests: both agree.
"""

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from nightjar.models.compact_ngram import compile_ngram, read_ngram
from nightjar.models.configurations import configuration
from nightjar.models.lexicon import read_lexicon, write_lexicon
from nightjar.models.manifest import Artifact, Manifest, Transfer
from nightjar.wire import frame, messages, topics
from nightjar.wire.codec import NAMES, codec_for
from nightjar.wire.codec.sparsify import Sparse
from nightjar.wire.codec.transfers import (
    TOPK_4,
    TOPK_8,
    apply_transfer,
    exact_transfer,
    topk_transfer,
)
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import sha256
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from nightjar.wire.secure_sum import low_rank
from nightjar.wire.secure_sum import messages as secure_sum
from tests.wire import independent_decoder
from tests.wire.half_transfer import half_transfer
from tests.wire.independent_modelled import Refused

LAYOUT = ParameterLayout(
    tuple(
        ParameterSpec(name, shape)
        for name, shape in {"a": (40, 8), "b": (8, 24), "c": (24,), "d": (2, 3, 5), "e": (1, 7), "f": ()}.items()
    )
)
RANK = low_rank.Rank(rows=50, right=2, left=3)
SHAPES = [[spec.name, list(spec.shape)] for spec in LAYOUT.tensors]
LARGE = configuration("gboard").layout(10_000)


class Defect(Exception):  # noqa: N818 - it is what was found
    """A decoder accepted what it must not, or two decoders disagree."""


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder.

    Attributes:
        name: of the target, and of the files that hold failing inputs.
        seeds: valid inputs.
        read: decodes; raises RemoteProtocolError for what it refuses, anything else is a defect.
        compare: the same by the independent decoder, many times slower; None where there is none.
        weight: share of the inputs.
    """

    name: str
    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    compare: Callable[[bytes], None] | None = None
    weight: float = 1


def targets() -> list[Target]:
    """Every target, with its seeds."""
    found = [_report(name) for name in NAMES]
    found += [_large_report()]
    evaluated = msgspec.structs.replace(_TRUE_REPORT, evaluation=frame.LocalEvaluation(40, 5, 11, 7, 12, 5.5, 5.25))
    of_keyboard = msgspec.structs.replace(evaluated, keyboard=frame.KeyboardEvaluation(1500, 640, 7, 655))
    frames = [*map(frame.encode_report, (_TRUE_REPORT, evaluated, of_keyboard)), *_chunks()]
    found.append(Target("frame", frames, _read_frame))
    found.append(Target("chunks", _chunks(), _read_chunks))
    bases = low_rank.bases_of(np.zeros(LAYOUT.size, np.float32), LAYOUT, RANK, np.random.default_rng(0))
    sent = low_rank.to_bytes(bases, np.ones(len(low_rank.group_sizes(LAYOUT, RANK)), np.float32))
    found.append(Target("bases", [sent], partial(low_rank.from_bytes, layout=LAYOUT, rank=RANK)))
    found.append(Target("transfer", _transfers(), _read_transfer, _compare_transfer, weight=6))
    for kind, seed in CONTROL.items():
        found.append(Target(kind, [json.dumps(seed).encode()], partial(_read_message, kind)))
    found.append(Target("sealed", [messages.encode(_ANNOUNCEMENT)], partial(messages.decode, "announce")))
    for name, seed, read in (
        ("secure-sum-up", secure_sum.MemberKeys(*map(bytes, (32, 32, 32, 64, 16))), secure_sum.decode_up),
        ("secure-sum-down", secure_sum.Roster(*map(bytes, (32, 66, 128))), secure_sum.decode_down),
    ):
        found.append(Target(name, [secure_sum.encode(seed)], read))
    found.append(Target("topic", [b"nightjar/1/p/up/0/d/report", b"nightjar/1/p/announce"], _read_topic))
    found.append(Target("manifest", [_manifest()], Manifest.decode))
    found.append(Target("ngram", [compile_ngram([[5, 6, 7], [5, 6]], 10)], partial(read_ngram, vocabulary_size=10)))
    found.append(Target("lexicon", [write_lexicon("en", {"the": 0.05, "don't": 0.01})], read_lexicon))
    return found


# --- reports ---


def _updates() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    even = rng.standard_normal(LAYOUT.size).astype(np.float32)
    rows = even.copy()
    rows[80:] *= np.float32(0.001)
    return [even, rows, np.ones_like(even), np.zeros_like(even), even * np.float32(1e-44), even * np.float32(1e38)]


def _report(name: str) -> Target:
    codec = codec_for(CodecChoice(name=name, density=1.0))
    seeds = []
    for density in (0.001, 0.1, 1.0):
        chosen = codec_for(CodecChoice(name=name, density=density))
        for update in _updates():
            # A half holds no more; a threshold is a sum of entries divided by k, which must be a float32.
            most = {"dense-f16": 6e4, "sampled-4": 1e35}.get(name, np.inf)
            fits = np.clip(update, -most, most).astype(np.float32)
            seeds.append(chosen.encode(fits, LAYOUT, np.random.default_rng(0)))

    def read(payload: bytes) -> None:
        report = frame.decode(_frame(codec.wire_id, payload))
        if not isinstance(report, frame.Report):
            raise Defect(report)
        update = codec.decode(report.payload, LAYOUT)
        _check(update, codec.read(report.payload, LAYOUT).norm)

    def compare(payload: bytes) -> None:
        def ours() -> tuple[list[int], bytes]:
            update = codec.decode(payload, LAYOUT)
            return update.indices.tolist(), update.values.astype("<f4").tobytes()

        def theirs() -> tuple[list[int], bytes]:
            got = independent_decoder.decode_report(_frame(codec.wire_id, payload), SHAPES)
            return list(got["indices"]), struct.pack(f"<{len(got['values'])}f", *got["values"])

        _same(ours, theirs)

    return Target(name, seeds, read, compare, weight=6)


def _large_report() -> Target:
    """A real model's size: here a short lie could claim much."""
    codec = codec_for(CodecChoice(name="topk-4", density=0.001))
    update = np.random.default_rng(6).standard_normal(LARGE.size).astype(np.float32) ** 3
    seeds = [codec.encode(update, LARGE, np.random.default_rng(0))]
    return Target("topk-4-large", seeds, partial(codec.decode, layout=LARGE), weight=0.5)


def _frame(codec: int, payload: bytes) -> bytes:
    return frame.encode_report(frame.Report(7, 1, codec, LAYOUT.fingerprint, 3, 100, 5, 4.5, 0.25, payload))


def _check(update: Sparse, norm: float) -> None:
    """What every update is that an encoder sent."""
    ascending = bool((np.diff(update.indices) > 0).all())
    inside = update.indices.size == 0 or (update.indices[0] >= 0 and update.indices[-1] < LAYOUT.size)
    with np.errstate(over="ignore"):
        expected = float(np.sqrt(np.square(update.values.astype(np.float64)).sum()))
    largest = float(np.finfo(np.float32).max)
    if (
        update.size != LAYOUT.size
        or update.indices.size != update.values.size
        or not ascending
        or not inside
        or not np.isfinite(update.values).all()
        or not np.isclose(min(norm, largest), min(expected, largest), rtol=1e-5, atol=1e-44)
    ):
        msg = f"an update of {update.indices.size} values, norm {norm}, expected {expected}"
        raise Defect(msg)


def _same(ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    try:
        expected = theirs()
    except Refused:
        expected = None
    try:
        got = ours()
    except RemoteProtocolError:
        got = None
    if got != expected:
        msg = f"ours {str(got)[:200]}, the independent decoder {str(expected)[:200]}"
        raise Defect(msg)


# --- frames ---


def _chunks() -> list[bytes]:
    long = _frame(1, np.random.default_rng(2).bytes(frame.CHUNK_PART_BYTES + 100))
    return frame.publishes(long, 7, 1)


def _read_frame(data: bytes) -> None:
    """A frame as it came; every second one with length and CRC made right."""
    if zlib.crc32(data) & 1 and len(data) >= frame.OVERHEAD_BYTES:
        head = data[:4] + struct.pack("<I", len(data) - frame.OVERHEAD_BYTES) + data[8:-4]
        data = head + struct.pack("<I", zlib.crc32(head))
    frame.decode(data)


def _read_chunks(data: bytes) -> None:
    """A changed chunk beside its true brothers, put together and read."""
    body = data[8:-4]
    head = data[:4] + struct.pack("<I", len(body)) + body
    changed = frame.decode(head + struct.pack("<I", zlib.crc32(head)))
    if isinstance(changed, frame.Chunk):
        frame.decode(frame.join(_TRUE_CHUNKS | {changed.index: changed}))


_TRUE_REPORT = frame.Report(7, 1, 4, LAYOUT.fingerprint, 3, 100, 5, 4.5, 0.25, b"payload")
_TRUE_CHUNKS = {chunk.index: chunk for chunk in map(frame.decode, _chunks()) if isinstance(chunk, frame.Chunk)}


# --- transfers, control ---


_BASE = np.random.default_rng(3).standard_normal(LAYOUT.size).astype(np.float32)
_BASE[:2] = np.finfo(np.float32).max, -0.0


def _transfers() -> list[bytes]:
    half = np.clip(_BASE, -60_000, 60_000).astype(np.float16).astype(np.float32)
    steps = [
        topk_transfer(form, codec_for(CodecChoice(name=name, density=0.1)).encode(_updates()[0], LAYOUT, rng), LAYOUT)
        for form, name, rng in (
            (TOPK_8, "topk-8", np.random.default_rng(4)),
            (TOPK_4, "topk-4", np.random.default_rng(5)),
        )
    ]
    return [half_transfer(half, LAYOUT), *(exact_transfer(_BASE, to, LAYOUT) for to in (_BASE, half, -_BASE)), *steps]


def _read_transfer(data: bytes) -> None:
    weights = apply_transfer(data, _BASE, LAYOUT)
    if weights.shape != (LAYOUT.size,) or not np.isfinite(weights).all():
        raise Defect(data)


def _compare_transfer(data: bytes) -> None:
    def theirs() -> bytes:
        weights = independent_decoder.apply_transfer(data, _BASE.tolist(), SHAPES)
        return struct.pack(f"<{len(weights)}f", *weights)

    _same(lambda: apply_transfer(data, _BASE, LAYOUT).astype("<f4").tobytes(), theirs)


_HASH = "0" * 64
CONTROL: dict[str, dict[str, object]] = {
    "check-in": {"agent_version": "0.1.0", "runtime": "r 1", "program": _HASH, "weights": None, "examples": 3},
    "assignment": {
        "task": "t",
        "round": 1,
        "attempt": 1,
        "version": 2,
        "manifest": _HASH,
        "codec": {"name": "topk-4", "density": 0.01},
        "plan": {"learning_rate": 0.5, "clip_norm": 1.0},
        "report_deadline_s": 60.5,
    },
    "rejection": {"reason": "not-selected", "retry_after_s": 1.5, "detail": "d"},
    "dropout": {"round": 1, "attempt": 1, "cause": "too-hot"},
    "query": {"round": 1, "attempt": 1, "chunks": 3},
    "missing": {"round": 1, "attempt": 1, "chunks": [0, 2]},
    "receipt": {"round": 1, "attempt": 1, "verdict": "invalid", "code": "crc"},
    "announce": {"version": 3, "manifest": _HASH},
    "status": {"online": True, "state": "training"},
}


_ANNOUNCEMENT = messages.Announcement(version=3, manifest=sha256(_HASH))


def _read_message(kind: str, data: bytes) -> None:
    if kind in messages.SIGNED:
        data = msgspec.json.encode(messages.Sealed(signed=data.decode(errors="replace")))
    messages.decode(kind, data)


def _read_topic(data: bytes) -> None:
    topics.parse(data.decode(errors="replace"))


def _manifest() -> bytes:
    small = configuration("tiny")
    layout = small.layout(300)
    file = Artifact.of(b"x")
    return Manifest(
        version=1,
        configuration=small.name,
        program=file,
        weights=Artifact(file.sha256, 4 * layout.size),
        vocabulary=file,
        layout=layout,
        batch_rows=16,
        sequence_length=20,
        hidden=small.hidden,
        minimum_agent_version="0.1.0",
        transfers=(Transfer(file, file.sha256),),
        bases=file,
    ).encode()
