"""Hostile vectors of codecs 3 to 6 and transfers: each is a lie in one place.

What the refusal says is checked when a vector is made, so that it shows what its name says.
"""

import struct
import zlib
from dataclasses import replace
from unittest import mock

import msgspec
import numpy as np

from nightjar.wire.codec import codec_for, modelled, topk
from nightjar.wire.codec.quantize import Logarithmic, Uniform
from nightjar.wire.codec.sampled import ONES
from nightjar.wire.codec.sparsify import top_k
from nightjar.wire.codec.topk import FORM_MODELLED, encode_levels, pack_levels
from nightjar.wire.codec.transfers import apply_transfer, exact_transfer
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.frame import decode, encode_report
from nightjar.wire.messages import CodecChoice
from tests.vectors.cases import MIXED, NAME_OF, ODD, TINY, crowded, floats, layout_of, report_of, shapes, spread
from tests.vectors.golden_updates import EVALUATION, HALVES, KEYBOARD, LARGEST
from tests.wire.half_transfer import half_transfer

INDICES = top_k(crowded(TINY, 6), 60).indices
LEVELS = np.resize([1, -2, 3, 0, -4, 7, 1, 1, -5, 2, 6], 60)
QUIET = np.where(np.arange(60) % 12 == 0, LEVELS, 0)  # so few signs that a part of the filler stays empty
GRIDS = {8: Uniform(1.0, 127), 4: Logarithmic(1.0, 300, 7)}


def lying(levels=LEVELS, ones=modelled.LEVEL_PRIOR, **changed):
    """A payload in the modelled form, by an encoder some of whose parts are exchanged."""
    longer = mock.patch.object(topk, "_bitmap_body", return_value=bytes(1000))
    with longer, mock.patch.multiple(modelled, **changed):
        return encode_levels(INDICES, levels, GRIDS[4], TINY, ones)


def streams_with(stream, change, ones):
    honest = modelled._number_streams

    def changed(layout, found):
        streams = honest(layout, found)
        values = streams[stream][0].copy()
        change(values)
        streams[stream] = (values, streams[stream][1])
        return streams

    return lying(ones=ones, _number_streams=changed)


def heads_with(change, ones):
    """Exchanges the numbers in the head of the first tensor: axis, lines in use, excess."""
    honest = modelled._head

    def changed(spec, found):
        values, widths = honest(spec, found)
        return (change(values) if spec.name == "t0" else values), widths

    return lying(ones=ones, _head=changed)


def fill_with(add, ones):
    honest = modelled._fill

    def changed(signs, lanes):
        filler, left = honest(signs, lanes)
        return filler + add, left

    return lying(QUIET, ones, _fill=changed)


def add_at(place, number):
    def change(values):
        values[place] += number

    return change


def move_between(first, second, number):
    def change(values):
        values[first] += number
        values[second] -= number

    return change


def with_words(body, change):
    (count,) = struct.unpack_from("<I", body)
    words, bits = body[4 : 4 + 2 * count], body[4 + 2 * count :]
    return change(count, words, bits)


def hostile_heads(bits, ones=modelled.LEVEL_PRIOR):
    """Name, payload, words that the refusal must hold."""
    good = encode_levels(INDICES, LEVELS, GRIDS[bits], TINY, ones)
    head = 13 if bits == 8 else 15
    assert good[head - 1] == FORM_MODELLED
    (words,) = struct.unpack_from("<I", good, head)
    cuts = {"k": 3, "scale": 6, "norm": head - 3, "form": head - 1, "word-count": head + 3}
    cuts |= {"words": head + 4 + words, "states": head + 4 + 2 * words + 1, "bits": len(good) - 1}
    for field, length in cuts.items():
        yield f"cut-in-{field}", good[:length], ""
    yield "empty", b"", "at least"
    yield "k-above-n", struct.pack("<I", TINY.size + 1) + good[4:], "do not fit"
    yield "k-of-4-gib", b"\xff" * 4 + good[4:], "do not fit"
    yield "k-one-more", struct.pack("<I", 61) + good[4:], "came with 60"
    yield "k-one-less", struct.pack("<I", 59) + good[4:], "came with 60"
    for value in ("nan", "inf", "-inf", "-1"):
        yield f"scale-{value}", good[:4] + struct.pack("<f", float(value)) + good[8:], "no grid"
    if bits == 4:
        for ratio in (1025, 65535):
            yield f"ratio-{ratio}", good[:8] + struct.pack("<H", ratio) + good[10:], "no grid"
    norm = np.frombuffer(good[head - 5 : head - 1], "<f4")[0]
    above, below = (np.nextafter(norm, np.float32(to), dtype=np.float32) for to in (np.inf, 0))
    for name, lie in {"a-step-above": above, "a-step-below": below, "zero": np.float32(0)}.items():
        yield f"norm-{name}", good[: head - 5] + lie.tobytes() + good[head - 1 :], "the head says"
    for value in ("nan", "inf", "-1"):
        lie = struct.pack("<f", float(value))
        yield f"norm-{value}", good[: head - 5] + lie + good[head - 1 :], "do not fit"
    yield "form-2", good[: head - 1] + b"\2" + good[head:], "form 2"
    yield "form-of-the-other-body", good[: head - 1] + b"\1" + good[head:], "bitmap"
    yield "scale-of-other-values", good[:4] + struct.pack("<f", 2.0) + good[8:], "the head says"


def hostile_bodies(ones=modelled.LEVEL_PRIOR):
    """Name, payload with 4 bits a level, words that the refusal must hold."""
    good = encode_levels(INDICES, LEVELS, GRIDS[4], TINY, ones)
    start, body = good[:15], good[15:]

    def packed(count, words, bits):
        return struct.pack("<I", count) + words + bits

    bodies = {
        "words-of-4-gib": (b"\xff" * 4 + body[4:], "do not fit"),
        "a-word-more": (with_words(body, lambda c, w, b: packed(c + 1, w + b"\0\0", b)), "do not end"),
        "a-word-less": (with_words(body, lambda c, w, b: packed(c - 1, w[:-2], b)), "too early"),
        "words-that-are-bits": (with_words(body, lambda c, w, b: packed(c + 1, w, b)), ""),
        "a-byte-more": (body + b"\0", "bits are left"),
        "a-one-in-the-last-byte": (body[:-1] + bytes([body[-1] | 1]), "bits are left"),
        "another-word": (with_words(body, lambda c, w, b: packed(c, bytes([w[0] ^ 64]) + w[1:], b)), ""),
        "zeros": (bytes(200), ""),
        "ones": (struct.pack("<I", 20) + b"\xff" * 200, ""),
    }
    for name, (lie, why) in bodies.items():
        yield name, start + lie, why
    payloads = {
        "filler-not-empty": (fill_with(1, ones), "not empty"),
        "a-state-that-ends-too-high": (fill_with(1 << 16, ones), "do not end"),
        "heads-that-sum-to-more": (heads_with(lambda v: v + np.array([0, 0, 1]), ones), "came with 61"),
        "heads-with-too-many-lines": (heads_with(lambda v: np.array([v[0], 63, v[2]]), ones), "lines"),
        "a-line-beyond-the-last": (streams_with(0, add_at(0, 40), ones), "line"),
        "counts-that-sum-to-more": (streams_with(1, add_at(0, 1), ones), "expected"),
        "more-in-a-line-than-places": (streams_with(1, move_between(1, 2, 3), ones), "expected"),
        "a-place-beyond-the-line": (streams_with(2, add_at(0, 40), ones), "place"),
    }
    for name, (payload, why) in payloads.items():
        yield name, payload, why

    bits = np.zeros(TINY.size, np.uint8)
    bits[INDICES] = 1
    start, packed_bits, levels = good[:14] + b"\1", np.packbits(bits).tobytes(), pack_levels(LEVELS, 7)
    stream, too_high = zlib.compress(packed_bits, 9), bytearray(levels)
    too_high[0] |= 0xF0
    bitmaps = {
        "a-bomb": (zlib.compress(bytes(10_000_000), 9) + levels, "bitmap"),
        "too-short": (zlib.compress(packed_bits[:-1], 9) + levels, "bitmap"),
        "one-bit-more": (zlib.compress(bytes([packed_bits[0] ^ 2]) + packed_bits[1:], 9) + levels, "ones"),
        "not-a-zlib-stream": (b"\0" + stream[1:] + levels, "decompressed"),
        "checksum": (stream[:-1] + bytes([stream[-1] ^ 1]) + levels, "decompressed"),
        "cut-in-the-bitmap": (stream[:-6], ""),
        "without-levels": (stream, "too early"),
        "a-level-less": (stream + levels[:-1], "too early"),
        "a-level-more": (stream + levels + b"\x77", "left"),
        "a-level-that-does-not-exist": (stream + bytes(too_high), "does not exist"),
    }
    for name, (lie, why) in bitmaps.items():
        yield f"bitmap-{name}", start + lie, why


def other_layout_payloads():
    """A one behind the last parameter, which needs a layout whose last byte is not full."""
    layout = layout_of((13,))
    levels = np.array([1, -2])
    good = encode_levels(np.array([3, 12]), levels, GRIDS[4], layout)
    bitmap = zlib.compress(bytes([0b00010000, 0b00000001]), 9)
    yield "bitmap-a-one-behind-the-last-parameter", layout, good[:14] + b"\1" + bitmap + pack_levels(levels, 7)


def entry(name, layout, wire_id, payload, why="", code="payload"):
    codec = codec_for(CodecChoice(name=NAME_OF[wire_id], density=1.0))
    try:
        codec.decode(payload, layout)
    except RemoteProtocolError as error:
        if error.code != code or why not in str(error):
            raise AssertionError(name, error.code, str(error)) from error
    else:
        raise AssertionError(name)
    return {
        "name": name,
        "layout": shapes(layout),
        "frame": encode_report(report_of(wire_id, layout, payload)).hex(),
        "code": code,
    }


def hostile_updates():
    yield from hostile_evaluations()
    for bits, wire_id in ((8, 4), (4, 5)):
        for name, payload, why in hostile_heads(bits):
            yield entry(f"topk-{bits}-{name}", TINY, wire_id, payload, why=why)
    for name, payload, why in hostile_bodies():
        yield entry(f"topk-4-{name}", TINY, 5, payload, why=why)
    for name, layout, payload in other_layout_payloads():
        yield entry(f"topk-4-{name}", layout, 5, payload, why="bitmap")
    good = HALVES.astype("<f2").tobytes()
    yield entry("dense-f16-cut", ODD, 3, good[:-1])
    yield entry("dense-f16-one-more", ODD, 3, good + b"\0\0")
    yield entry("dense-f16-nan", ODD, 3, b"\0\x7e" + good[2:], code="not-finite")
    yield entry("dense-f16-infinite", ODD, 3, b"\0\x7c" + good[2:], code="not-finite")


def hostile_sampled():
    for name, payload, why in (*hostile_heads(4, ONES), *hostile_bodies(ONES)):
        yield entry(f"sampled-4-{name}", TINY, 6, payload, why=why)
    yield entry("sampled-4-payload-of-topk-4", TINY, 6, encode_levels(INDICES, LEVELS, GRIDS[4], TINY))


def hostile_evaluations():
    """Reports whose local evaluation cannot be."""
    report = report_of(5, TINY, encode_levels(INDICES, LEVELS, GRIDS[4], TINY))
    lies = {
        "top1-above-top3": replace(EVALUATION, top1_after=13),
        "top3-above-counted": replace(EVALUATION, top3_before=41),
        "loss-nan": replace(EVALUATION, loss_before=float("nan")),
        "loss-infinite": replace(EVALUATION, loss_after=float("inf")),
    }
    reports = {name: msgspec.structs.replace(report, evaluation=lie) for name, lie in lies.items()}
    good = msgspec.structs.replace(report, evaluation=EVALUATION)
    yield from hostile_reports("evaluation", good, {"cut": 30, "cut-in-the-report-header": 70}, reports)


def hostile_keyboards():
    """Reports whose keyboard evaluation cannot be, or whose local one beside it."""
    good = report_of(5, TINY, encode_levels(INDICES, LEVELS, GRIDS[4], TINY))
    good = msgspec.structs.replace(good, evaluation=EVALUATION, keyboard=KEYBOARD)
    lies = {
        "more-saved-than-letters": {"keyboard": replace(KEYBOARD, saved=1501)},
        "more-saved-by-the-announced-than-letters": {"keyboard": replace(KEYBOARD, saved_announced=1501)},
        "no-letters": {"keyboard": replace(KEYBOARD, letters=0, saved=0, saved_announced=0)},
        "with-an-evaluation-that-cannot-be": {"evaluation": replace(EVALUATION, top1_after=13)},
    }
    cuts = {"cut-in-the-evaluation": 30, "cut": 46, "cut-in-the-report-header": 86}
    reports = {name: msgspec.structs.replace(good, **lie) for name, lie in lies.items()}
    yield from hostile_reports("keyboard", good, cuts, reports)


def hostile_reports(what, good, cuts, lies):
    """A good report cut at some bytes, and reports that lie."""
    frames = {name: encode_report(lie) for name, lie in lies.items()}
    whole = encode_report(good)
    for name, end in cuts.items():
        head = whole[:4] + struct.pack("<I", end - 8) + whole[8:end]
        frames[name] = head + struct.pack("<I", zlib.crc32(head))
    for name, data in frames.items():
        try:
            decode(data)
        except RemoteProtocolError as error:
            yield {
                "name": f"{what}-{name}",
                "layout": shapes(TINY),
                "frame": data.hex(),
                "code": error.code,
            }
        else:
            raise AssertionError(name)


def hostile_transfers():
    base = spread(MIXED, 22)
    base[[3, 7, 40]] = 1.0, LARGEST, -0.0
    few = base.copy()
    few[[3, 40, 100]] += np.float32(0.5)
    good = exact_transfer(base, few, MIXED)
    half = half_transfer(np.ones(MIXED.size, np.float32), MIXED)
    update = encode_levels(np.array([7]), np.array([7]), Logarithmic(LARGEST, 0, 7), MIXED)
    place_of_infinity, place_of_one = 0x7F800000, 0x3F800000

    def stepping(place, level, shift=0):
        """An exact transfer that moves one weight."""
        body = modelled.encode(np.array([place]), np.array([level]), MIXED, (1 << 32) - 1).data
        return good[:13] + struct.pack("<IB", 1, shift) + body

    lies = {
        "empty": b"",
        "cut-in-the-fingerprint": good[:9],
        "cut-in-the-form": good[:4],
        "foreign-magic": b"NJT2" + good[4:],
        "another-layout": good[:5] + bytes(8) + good[13:],
        "form-0": good[:4] + b"\0" + good[5:],
        "form-5": good[:4] + b"\5" + good[5:],
        "half-cut": half[:-1],
        "half-one-more": half + b"\0\0",
        "half-nan": half[:13] + b"\0\x7e" + half[15:],
        "half-infinite": half[:13] + b"\0\x7c" + half[15:],
        "exact-cut-in-the-count": good[:15],
        "exact-cut-in-the-body": good[:-3],
        "exact-count-above-n": good[:13] + struct.pack("<I", MIXED.size + 1) + good[17:],
        "exact-count-one-less": good[:13] + struct.pack("<I", 2) + good[17:],
        "exact-shift-32": good[:17] + b"\x20" + good[18:],
        "exact-to-infinity": stepping(3, place_of_infinity - place_of_one),
        "exact-to-minus-infinity": stepping(40, -place_of_infinity),
        "exact-into-the-gap-of-zero": stepping(40, 1),
        "exact-beyond-everything": stepping(3, (1 << 32) - 1, 31),
        "exact-below-everything": stepping(40, -((1 << 32) - 1), 31),
        "exact-a-byte-more": good + b"\0",
        "topk-4-to-infinity": good[:4] + b"\4" + good[5:13] + update,
        "topk-8-of-the-payload-of-topk-4": good[:4] + b"\3" + good[5:13] + update,
    }
    for name, data in lies.items():
        try:
            apply_transfer(data, base, MIXED)
        except RemoteProtocolError as error:
            yield {
                "name": name,
                "layout": shapes(MIXED),
                "base": floats(base),
                "transfer": data.hex(),
                "code": error.code,
            }
        else:
            raise AssertionError(name)
