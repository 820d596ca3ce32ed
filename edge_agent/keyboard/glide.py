"""Decodes a glide: one line drawn over the letter keys of a word.

After SHARK2 (Kristensson and Zhai, UIST 2004). Each word has an ideal line, straight from key to key. Words are pruned
by their first and last key, by keys that the glide does not come near, by the length of their line, and by its distance
at a few points. The rest are compared with the glide at equidistant points in two channels: *location*, the distance on
the keyboard, and *shape*, the same after both lines were moved to one centre and scaled to one size. A third channel is
the distance of the glide to each key of the word, visited in order. Squared distances are costs in nats, as of Gaussian
errors, and add to the log-probability of a word. Pure. Ideal lines are made when they are needed: those of a hundred
thousand words would take more memory than the rest of the keyboard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nightjar.edge_agent.keyboard.lexicon import Numbers
from nightjar.edge_agent.ports import Floats
from nightjar.models.lexicon import fold

Keys = Mapping[str, tuple[float, float]]
"""The centre of each letter's key, (right, down), in key widths."""

POINTS, COARSE_POINTS = 32, 8
"""Points at which lines are compared, at last and in pruning."""
COMPARED = 200
"""Words that are compared at all points."""
REACH = 1.25
"""Largest distance of the glide to a key of its word, and of its ends to the first and the last key, in key widths."""
SHORTER, LONGER, SLACK = 0.4, 1.6, 1.5
"""Bounds of the length of a word's line: multiples of the glide's length, less or more this many key widths."""
LOCATION, SHAPE, VISIT = 0.14, 0.12, 0.4
"""Standard deviations: root mean square distance in key widths and in sizes of the line, and distance to a key."""
_SKIPPED, _NO_KEY, _END = 253, 254, 255
_BITS = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))


class Paths:
    """The words as sequences of keys, one byte a letter.

    Args:
        words: words in Unicode's composed form; a word's number is its index.
        letters: the letters that have a key, at most 64. An accented letter without a key is typed with that of its
            base letter, an apostrophe with none; a word with any other sign, or of one letter, has no path.
    """

    def __init__(self, words: Sequence[str], letters: Sequence[str]) -> None:
        keys = {letter: number for number, letter in enumerate(letters)}
        text = np.frombuffer("".join(f"{word}\n" for word in words).encode("utf-32-le"), np.uint32)
        signs, places = np.unique(text, return_inverse=True)
        codes = np.array([_code(chr(sign), keys) for sign in signs], np.uint8)[places]
        codes = codes[codes != _SKIPPED]
        ends = np.flatnonzero(codes == _END)
        starts = np.append(0, ends + 1)[: len(ends)]
        unusable = np.append(0, np.cumsum(codes == _NO_KEY))
        numbers = np.flatnonzero((ends - starts > 1) & (unusable[ends] == unusable[starts]))
        self._numbers, self._codes = numbers, codes
        self._starts = starts[numbers].astype(np.int32)
        self._lengths = (ends - starts)[numbers].astype(np.int32)
        bits = np.append(_BITS, np.zeros(192, np.uint64))[codes]
        self._keys = np.bitwise_or.reduceat(bits, starts)[numbers] if len(starts) else np.empty(0, np.uint64)

    def costs(self, glide: Floats, centres: Floats) -> tuple[Numbers, Floats]:
        """The words that a glide may mean, and what it costs to mean each.

        >>> keys = np.float32([(1, 0), (2, 0), (9, 0)])
        >>> numbers, costs = Paths(["we", "pep"], "wep").costs(np.float32([(1, 0), (2, 0)]), keys)
        >>> numbers.tolist(), costs.tolist()
        ([0], [0.0])

        Args:
            glide: (n, 2) float32, the points of the line (right, down) in order, in key widths; n at least 2.
            centres: (letters, 2) float32, the centre of each letter's key, in the same units.

        Returns:
            (k,) int64 numbers, at most :data:`COMPARED` of them, and (k,) float32 costs in nats.
        """
        drawn = resampled(glide[None], POINTS)
        squares = ((centres[:, None] - drawn) ** 2).sum(axis=2)  # (letters, POINTS)
        first, last = (((centres - glide[end]) ** 2).sum(axis=1) <= REACH**2 for end in (0, -1))
        missed = np.bitwise_or.reduce(_BITS[: len(centres)][squares.min(axis=1) > REACH**2], initial=np.uint64(0))
        ends = first[self._codes[self._starts]] & last[self._codes[self._starts + self._lengths - 1]]
        rows = np.flatnonzero(ends & ((self._keys & missed) == 0))
        letters = np.arange(self._lengths[rows].max(initial=1))
        codes = self._codes[self._starts[rows, None] + np.minimum(letters, self._lengths[rows, None] - 1)]
        apart = np.hypot(*(centres[:, None] - centres).T)  # (letters, letters)
        lengths = apart[codes[:, :-1], codes[:, 1:]].sum(axis=1)
        length = np.hypot(*np.diff(glide, axis=0).T).sum()
        fits = (lengths >= SHORTER * length - SLACK) & (lengths <= LONGER * length + SLACK)
        rows, codes = rows[fits], codes[fits]
        corners = centres[codes]  # (k, letters, 2); the last key is repeated
        if len(rows) > COMPARED:
            coarse = _mean_square(resampled(corners, COARSE_POINTS) - resampled(glide[None], COARSE_POINTS))
            nearest = np.sort(np.argpartition(coarse, COMPARED)[:COMPARED])
            rows, codes, corners = rows[nearest], codes[nearest], corners[nearest]
        ideal = resampled(corners, POINTS)
        cost = _mean_square(ideal - drawn) / LOCATION**2 + _mean_square(_scaled(ideal) - _scaled(drawn)) / SHAPE**2
        visits = squares[codes[:, 0]]  # (k, POINTS): cost of the keys until now if the last is visited at a point
        for letter in range(1, codes.shape[1]):
            further = np.minimum.accumulate(visits, axis=1) + squares[codes[:, letter]]
            visits = np.where((letter < self._lengths[rows])[:, None], further, visits)
        cost = (cost + visits.min(axis=1, initial=np.inf) / VISIT**2) / 2
        return self._numbers[rows], cost.astype(np.float32)


def resampled(lines: Floats, points: int) -> Floats:
    """Points at equal distances along lines.

    >>> resampled(np.float32([[(0, 0), (1, 0), (1, 3)]]), 3).tolist()
    [[[0.0, 0.0], [1.0, 1.0], [1.0, 3.0]]]

    ``lines`` are the corners of each line, (k, n, 2) float32 with n at least 2. Returns (k, points, 2), points at
    least 2.
    """
    steps = np.diff(lines, axis=1)
    spans = np.hypot(steps[..., 0], steps[..., 1])
    along = np.pad(spans.cumsum(axis=1), ((0, 0), (1, 0)))  # (k, n)
    targets = along[:, -1:] * np.linspace(0, 1, points, dtype=np.float32)
    segments = np.zeros(targets.shape, np.int64)
    for corner in range(1, along.shape[1] - 1):
        segments += targets >= along[:, corner, None]
    spans = np.take_along_axis(spans, segments, 1)
    parts = (targets - np.take_along_axis(along, segments, 1)) / np.maximum(spans, 1e-6)
    rows = np.arange(len(lines))[:, None]
    placed: Floats = lines[rows, segments] + np.clip(parts, 0, 1)[..., None] * steps[rows, segments]
    return placed


def _mean_square(differences: Floats) -> Floats:
    mean: Floats = (differences**2).sum(axis=2).mean(axis=1)
    return mean


def _scaled(lines: Floats) -> Floats:
    """Lines moved to one centre and scaled to size 1."""
    size = np.ptp(lines, axis=1).max(axis=1)
    scaled: Floats = (lines - lines.mean(axis=1, keepdims=True)) / np.maximum(size, 1.0)[:, None, None]
    return scaled


def _code(sign: str, keys: Mapping[str, int]) -> int:
    if sign == "\n":
        return _END
    base = fold(sign)
    return _SKIPPED if base == "" else keys.get(sign.lower(), keys.get(base, _NO_KEY))
