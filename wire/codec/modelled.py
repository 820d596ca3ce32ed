"""The modelled form of a sparse vector: codes positions by line, and levels by the density of their line, with rANS.

The entropy coder codes four streams, each for all tensors together:

1. gaps between the lines in use,
2. number of positions beyond the first in each line in use,
3. gaps between the positions within a line,
4. magnitudes of the levels. Dense lines have larger values, so the context is the line's number of positions.

The reader knows the mean of every number in streams 1 to 3 beforehand (from the heads, then from the previous stream),
and uses it as context. Signs cannot be predicted; they fill the lanes, and the remaining signs come at the end.
``docs/wire-format.md`` is the normative specification.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.wire.codec import lines, numbers
from nightjar.wire.codec.fields import FieldReader, pack, refuse
from nightjar.wire.codec.lines import Lines
from nightjar.wire.codec.numbers import mean_class
from nightjar.wire.codec.rans import LaneDecoder, LaneEncoder
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

Ints = npt.NDArray[np.int64]

MOST_LANES = 256
"""More lanes would hardly make numpy faster."""
CLASSES = 80
SURE = 2048
"""Weight of a strong prior: the positions in a line are nearly uniform once their number is known."""
VAGUE = 256
"""Weight of a weak prior, of which only the mean is known."""
LEVEL_DIRECT_BITS = 3
LEVEL_PRIOR = 64
"""First weight of each magnitude; of magnitude 1 a codec may give another (``ones``)."""
MOST_CROWDED = 9
"""Largest context of a level; the context is the bit length of its line's count minus one."""

_WORDS = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """The encoder's result."""

    data: bytes  # the bytes
    ideal_bits: float  # bits that a perfect coder with the same adaptive model would need
    position_bits: float  # the part of ``ideal_bits`` for positions


def encode(indices: Ints, levels: Ints, layout: ParameterLayout, most: int, ones: int = LEVEL_PRIOR) -> Coded:
    """Code positions (k,) int64, strictly ascending in [0, n), and the level at each, (k,) int64 in [-most, most]."""
    shapes = [_shorter(spec, indices, start, stop) for spec, start, stop in layout.spans()]
    heads = [_head(spec, found) for (spec, _, _), found in zip(layout.spans(), shapes, strict=True)]
    coder = LaneEncoder(lanes_for(indices.size))
    alphabet = _alphabet(layout)
    rests = []
    for (values, classes), weight in zip(_number_streams(layout, shapes), (VAGUE, VAGUE, SURE), strict=True):
        token, rest, width = numbers.tokens(values)
        coder.stream(token, classes, numbers.geometric_prior(alphabet, CLASSES, weight))
        rests.append((rest, width))
    plain = sum(int(width.sum()) for _, width in rests) + sum(int(width.sum()) for _, width in heads)
    position_bits = coder.ideal_bits + plain
    token, rest, width = numbers.tokens(np.abs(levels), LEVEL_DIRECT_BITS)
    crowds = [lines.join(found, spec)[1] for spec, found in zip(layout.tensors, shapes, strict=True)]
    coder.stream(token, _crowding(crowds), _level_prior(most, ones))
    rests.append((rest, width))
    signs = (levels[levels != 0] < 0).astype(np.int64)
    plain += int(width.sum()) + signs.size
    ideal_bits = coder.ideal_bits + plain

    filler, remaining = _fill(signs, lanes_for(indices.size))
    states, words = coder.finish(filler)
    fields = [*_state_fields(states), *heads, *rests, (remaining, np.ones_like(remaining))]
    bits = pack(np.concatenate([f for f, _ in fields]), np.concatenate([w for _, w in fields]))
    return Coded(_WORDS.pack(words.size) + words.astype("<u2").tobytes() + bits, ideal_bits, position_bits)


def decode(data: bytes, count: int, layout: ParameterLayout, most: int, ones: int = LEVEL_PRIOR) -> tuple[Ints, Ints]:
    """Inverse of :func:`encode` for bytes from the network that hold k = ``count`` positions.

    Raises:
        RemoteProtocolError: the bytes are not a valid encoding.
    """
    words, reader = _split(data)
    decoder = LaneDecoder(_read_states(reader, lanes_for(count)), words)
    heads = [_read_head(reader, spec) for spec in layout.tensors]
    if sum(head.count for head in heads) != count:
        refuse(f"{count} values came with {sum(head.count for head in heads)} positions")
    shapes = _read_lines(decoder, reader, layout, heads)
    joined = [lines.join(found, spec) for spec, found in zip(layout.tensors, shapes, strict=True)]
    token = decoder.stream(_crowding([crowd for _, crowd in joined]), _level_prior(most, ones))
    levels = numbers.join(token, reader.take(numbers.rest_widths(token, LEVEL_DIRECT_BITS)), LEVEL_DIRECT_BITS)
    if count and int(levels.max()) > most:
        refuse(f"a magnitude of {levels.max()} among the levels, at most {most} exist")
    _sign(levels, decoder.finish(), reader)
    reader.finish()
    return _joined([start + local for (_, start, _), (local, _) in zip(layout.spans(), joined, strict=True)]), levels


def lanes_for(count: int) -> int:
    """L, in proportion to k: a lane costs four bits, and its filler holds signs.

    >>> lanes_for(14_123), lanes_for(5)
    (176, 1)
    """
    return min(max(count // 80, 1), MOST_LANES)


# --- heads: which axis, how many lines, how many positions ---


@dataclass(frozen=True, slots=True)
class _Head:
    axis: int
    used: int
    count: int


def _head(spec: ParameterSpec, found: Lines) -> tuple[Ints, Ints]:
    count, length = lines.extent(spec, found.axis)
    used = found.used.size
    values = np.array([found.axis, used, found.places.size - used], np.int64)
    return values, np.array([len(lines.axes(spec)) - 1, count.bit_length(), (used * (length - 1)).bit_length()])


def _read_head(reader: FieldReader, spec: ParameterSpec) -> _Head:
    axis = reader.one(len(lines.axes(spec)) - 1)
    count, length = lines.extent(spec, axis)
    used = reader.one(count.bit_length())
    excess = reader.one((used * (length - 1)).bit_length())
    if used > count or excess > used * (length - 1):
        refuse(f"positions of {spec.name} cannot be: {excess} positions beyond one in each of {used} of {count} lines")
    return _Head(axis, used, used + excess)


# --- numbers ---


def _line_gaps(found: Lines) -> Ints:
    return np.diff(found.used, prepend=-1) - 1


def _line_classes(spec: ParameterSpec, axis: int, used: int) -> Ints:
    count = lines.extent(spec, axis)[0]
    return np.full(used, mean_class(np.array(count - used), np.array(used + 1)))


def _count_classes(used: int, count: int) -> Ints:
    return np.full(used, mean_class(np.array(count - used), np.array(max(used, 1))))


def _gap_classes(spec: ParameterSpec, axis: int, counts: Ints) -> Ints:
    return np.repeat(mean_class(lines.extent(spec, axis)[1] - counts, counts + 1), counts.astype(np.intp))


def _number_streams(layout: ParameterLayout, shapes: list[Lines]) -> list[tuple[Ints, Ints]]:
    tensors = list(zip(layout.tensors, shapes, strict=True))
    streams = [
        [(_line_gaps(f), _line_classes(s, f.axis, f.used.size)) for s, f in tensors],
        [(f.counts - 1, _count_classes(f.used.size, f.places.size)) for _, f in tensors],
        [(lines.gaps(f), _gap_classes(s, f.axis, f.counts)) for s, f in tensors],
    ]
    return [(_joined([v for v, _ in parts]), _joined([c for _, c in parts])) for parts in streams]


def _read_lines(decoder: LaneDecoder, reader: FieldReader, layout: ParameterLayout, heads: list[_Head]) -> list[Lines]:
    tensors = list(zip(layout.tensors, heads, strict=True))
    alphabet = _alphabet(layout)

    def read(classes: list[Ints], weight: int) -> list[Ints]:
        token = decoder.stream(_joined(classes), numbers.geometric_prior(alphabet, CLASSES, weight))
        values = numbers.join(token, reader.take(numbers.rest_widths(token)))
        return np.split(values, np.cumsum([part.size for part in classes])[:-1]) if classes else []

    used = [np.cumsum(g + 1) - 1 for g in read([_line_classes(s, h.axis, h.used) for s, h in tensors], VAGUE)]
    counts = [c + 1 for c in read([_count_classes(h.used, h.count) for _, h in tensors], VAGUE)]
    for (spec, head), line, count in zip(tensors, used, counts, strict=True):
        total, length = lines.extent(spec, head.axis)
        if head.used and (line[-1] >= total or int(count.max()) > length or int(count.sum()) != head.count):
            refuse(
                f"positions of {spec.name} cannot be: line {line[-1]} of {total}, {count.sum()} positions, "
                f"expected {head.count}"
            )
    steps = read([_gap_classes(s, h.axis, c) for (s, h), c in zip(tensors, counts, strict=True)], SURE)
    shapes = []
    for (spec, head), line, count, step in zip(tensors, used, counts, steps, strict=True):
        place = lines.places(step, count) if head.count else step
        length = lines.extent(spec, head.axis)[1]
        if head.count and int(place.max()) >= length:
            refuse(f"positions of {spec.name} cannot be: place {place.max()} in a line of {length}")
        shapes.append(Lines(head.axis, line, count, place))
    return shapes


def _alphabet(layout: ParameterLayout) -> int:
    """Number of tokens for every number that can occur: at most the largest number of lines or of places."""
    return numbers.alphabet_for(
        max((max(lines.extent(s, a)) for s in layout.tensors for a in lines.axes(s)), default=1)
    )


def _shorter(spec: ParameterSpec, indices: Ints, start: int, stop: int) -> Lines:
    """The lines along the axis with the lower estimated cost."""
    low, high = np.searchsorted(indices, [start, stop])
    local = indices[low:high] - start
    return min((lines.split(local, spec, axis) for axis in lines.axes(spec)), key=lambda found: _rough(found, spec))


def _rough(found: Lines, spec: ParameterSpec) -> int:
    """Approximate bits of a Rice code: eight per line, plus the cost of each gap relative to the mean gap."""
    length = lines.extent(spec, found.axis)[1]
    mean = np.maximum((length - found.counts) // found.counts, 1)
    widths = np.frexp(mean.astype(np.float64))[1].astype(np.int64) - 1
    quotients = lines.gaps(found) >> np.repeat(widths, found.counts.astype(np.intp))
    return 8 * found.used.size + int(quotients.sum()) + int((widths * found.counts).sum())


# --- levels ---


def _crowding(crowds: list[Ints]) -> Ints:
    """Context of each level, from the number of positions in its line."""
    return np.minimum(np.frexp(_joined(crowds).astype(np.float64))[1].astype(np.int64) - 1, MOST_CROWDED)


def _level_prior(most: int, ones: int) -> Ints:
    prior = np.full((MOST_CROWDED + 1, numbers.alphabet_for(most, LEVEL_DIRECT_BITS)), LEVEL_PRIOR, np.int64)
    prior[:, 1] = ones
    return prior


def _sign(levels: Ints, filler: Ints, reader: FieldReader) -> None:
    """Apply the signs to the levels in place: first those from the filler, then the remaining ones."""
    places = np.flatnonzero(levels)
    held = ((filler[:, np.newaxis] >> np.arange(15, -1, -1)) & 1).ravel()
    if held[places.size :].any():
        refuse("the filler behind the last sign is not empty")
    rest = reader.take(np.ones(max(places.size - held.size, 0), np.int64))
    negative = np.concatenate([held[: places.size], rest]).astype(bool)
    levels[places[negative]] *= -1


def _fill(signs: Ints, lanes: int) -> tuple[Ints, Ints]:
    """The first 16 L signs as L numbers of 16 bits, and the remaining signs."""
    first = np.zeros(16 * lanes, np.int64)
    first[: min(signs.size, first.size)] = signs[: first.size]
    return first.reshape(lanes, 16) @ (1 << np.arange(15, -1, -1)), signs[first.size :]


# --- bytes ---


def _state_fields(states: Ints) -> list[tuple[Ints, Ints]]:
    """Position of the leading one bit of each state, minus 16, in four bits; then the bits below it."""
    leading = np.frexp(states.astype(np.float64))[1].astype(np.int64) - 1
    return [(leading - 16, np.full_like(leading, 4)), (states - (np.int64(1) << leading), leading)]


def _read_states(reader: FieldReader, lanes: int) -> Ints:
    leading = reader.take(np.full(lanes, 4, np.int64)) + 16
    return (np.int64(1) << leading) + reader.take(leading)


def _split(data: bytes) -> tuple[npt.NDArray[np.uint16], FieldReader]:
    if len(data) < _WORDS.size:
        refuse(f"expected the number of words in {_WORDS.size} bytes, got {len(data)} bytes")
    (count,) = _WORDS.unpack_from(data)
    end = _WORDS.size + 2 * count
    if end > len(data):
        refuse(f"{count} words do not fit a payload of {len(data)} bytes")
    words = np.frombuffer(data, "<u2", count=count, offset=_WORDS.size).astype(np.uint16)
    return words, FieldReader(data[end:])


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
