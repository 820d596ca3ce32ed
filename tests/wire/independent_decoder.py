"""A second decoder of reports, written from docs/wire-format.md alone: plain Python, no numpy, nothing of wire."""

import hashlib
import json
import math
import struct
import zlib
from fractions import Fraction

from tests.wire.independent_modelled import Bits, Refused, modelled, unpack

LARGEST = (2 - 2.0**-23) * 2.0**127


def f32(value):
    """A binary64 number rounded to binary32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def size_of(layout):
    return sum(math.prod(shape) for _, shape in layout)


def fingerprint(layout):
    canonical = json.dumps({"tensors": [{"name": n, "shape": s} for n, s in layout]}, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()[:8]


# Grids and levels


def uniform_grid(data, top):
    """The magnitudes of the levels 0 to M, and the rest of the payload."""
    (scale,) = unpack("<f", data)
    if not 0 <= scale < math.inf:
        raise Refused
    return [f32(level * (scale / top)) for level in range(top + 1)], data[4:]


def logarithmic_grid(data, top):
    least, ratio = unpack("<fH", data)
    if not 0 <= least < math.inf or ratio > 1024:
        raise Refused
    fractions = [1.0]
    for _ in range(1023):
        fractions.append(fractions[-1] * 1.000677130693066357)
    magnitudes = [0.0]
    for level in range(1, top + 1):
        exponent = (level - 1) * ratio
        magnitudes.append(f32(min(least * (fractions[exponent % 1024] * 2.0 ** (exponent // 1024)), LARGEST)))
    return magnitudes, data[6:]


def packed_levels(data, k, top):
    width = 8 if top == 127 else 4
    if len(data) != (k * width + 7) // 8:
        raise Refused
    bits = Bits(data)
    levels = [bits.number(width) - top for _ in range(k)]
    if "1" in bits.bits[bits.at :] or any(level > top for level in levels):
        raise Refused
    return levels


def value_of(level, magnitudes):
    return -magnitudes[-level] if level < 0 else magnitudes[level]


# The other forms


def bitmap(data, size, k, top):
    stream = zlib.decompressobj()
    try:
        packed = stream.decompress(data, (size + 7) // 8 + 1)
    except zlib.error:
        raise Refused from None
    if not stream.eof or len(packed) != (size + 7) // 8:
        raise Refused
    bits = Bits(packed)
    positions = [i for i in range(size) if bits.take(1) == "1"]
    if len(positions) != k or "1" in bits.bits[bits.at :]:
        raise Refused
    return positions, packed_levels(stream.unused_data, k, top)


def topk(payload, layout, grid, top, ones=64):
    (k,) = unpack("<I", payload)
    if k > size_of(layout):
        raise Refused
    magnitudes, rest = grid(payload[4:], top)
    norm, form = unpack("<fB", rest)
    match form:
        case 0:
            positions, levels = modelled(rest[5:], [shape for _, shape in layout], k, top, ones)
        case 1:
            positions, levels = bitmap(rest[5:], size_of(layout), k, top)
        case _:
            raise Refused
    values = [value_of(level, magnitudes) for level in levels]
    squares = float(sum((Fraction(value) ** 2 for value in values), Fraction(0)))
    if f32(min(math.sqrt(squares), LARGEST)) != norm:
        raise Refused
    return positions, values


def place_of(weight):
    bits = struct.unpack("<I", struct.pack("<f", weight))[0]
    return bits if bits < 1 << 31 else (1 << 31) - bits - (1 << 13)


def weight_at(place):
    bits = place if place >= 0 else (1 << 31) - (1 << 13) - place
    if not 0 <= bits < 1 << 32 or (place < 0) is (bits < 1 << 31):
        raise Refused
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def apply_transfer(data, base, layout):
    """The weights, a list of floats; ``base`` is one, too, or None. Raises Refused."""
    magic, form, of_layout = unpack("<4sB8s", data)
    if magic != b"NJT1" or of_layout != fingerprint(layout):
        raise Refused
    body, size = data[13:], size_of(layout)
    if form == 1:
        if len(body) != 2 * size:
            raise Refused
        weights = list(unpack(f"<{size}e", body))
    elif base is None:
        raise Refused
    elif form == 2:
        count, shift = unpack("<IB", body)
        if count > size or shift > 31:
            raise Refused
        weights = list(base)
        positions, levels = modelled(body[5:], [shape for _, shape in layout], count, (1 << 32) - 1)
        for position, level in zip(positions, levels, strict=True):
            weights[position] = weight_at(place_of(base[position]) + level * (1 << shift))
    elif form in {3, 4}:
        weights = list(base)
        positions, values = topk(body, layout, *((uniform_grid, 127) if form == 3 else (logarithmic_grid, 7)))
        for position, value in zip(positions, values, strict=True):
            weights[position] = base[position] + value
    else:
        raise Refused
    try:
        weights = [f32(weight) for weight in weights]
    except OverflowError:
        raise Refused from None
    if not all(map(math.isfinite, weights)):
        raise Refused
    return weights


def local_evaluation(body):
    names = ("counted", "top1_before", "top3_before", "top1_after", "top3_after", "loss_before", "loss_after")
    found = dict(zip(names, unpack("<IIIIIff", body), strict=True))
    for when in ("before", "after"):
        recalls_fit = found[f"top1_{when}"] <= found[f"top3_{when}"] <= found["counted"]
        if not recalls_fit or not math.isfinite(found[f"loss_{when}"]):
            raise Refused
    return found


def keyboard_evaluation(body):
    found = dict(zip(("letters", "saved", "announced", "saved_announced"), unpack("<IIII", body), strict=True))
    if found["letters"] == 0 or found["saved"] > found["letters"] or found["saved_announced"] > found["letters"]:
        raise Refused
    return found


def decode_report(frame, layout):
    """The report as a dict, ``layout`` is a list of [name, shape]. Raises Refused."""
    if len(frame) < 12 or frame[:3] != b"NJ\x01" or frame[3] not in {1, 17, 18}:
        raise Refused
    (length,) = struct.unpack_from("<I", frame, 4)
    if len(frame) != length + 12 or struct.unpack("<I", frame[-4:])[0] != zlib.crc32(frame[:-4]):
        raise Refused
    body, evaluation, keyboard = frame[8:-4], None, None
    if frame[3] != 1:
        evaluation, body = local_evaluation(body), body[28:]
    if frame[3] == 18:
        keyboard, body = keyboard_evaluation(body), body[16:]
    if len(body) < 40:
        raise Refused
    number, attempt, codec = struct.unpack_from("<QHB", body)
    version, num_examples, steps, loss, seconds = struct.unpack_from("<IIIff", body, 20)
    if body[12:20] != fingerprint(layout):
        raise Refused
    payload, size = body[40:], size_of(layout)
    match codec:
        case 1 | 3:
            letter, width = ("f", 4) if codec == 1 else ("e", 2)
            if len(payload) != width * size:
                raise Refused
            indices, values = list(range(size)), list(unpack(f"<{size}{letter}", payload))
            if not all(map(math.isfinite, values)):
                raise Refused
        case 4:
            indices, values = topk(payload, layout, uniform_grid, 127)
        case 5:
            indices, values = topk(payload, layout, logarithmic_grid, 7)
        case 6:
            indices, values = topk(payload, layout, logarithmic_grid, 7, ones=16384)
        case _:
            raise Refused
    return {
        "round": number,
        "attempt": attempt,
        "codec": codec,
        "version": version,
        "num_examples": num_examples,
        "steps": steps,
        "loss": loss,
        "seconds": seconds,
        "evaluation": evaluation,
        "keyboard": keyboard,
        "indices": indices,
        "values": values,
    }
