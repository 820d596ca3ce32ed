"""The recall chart: shows how well the keyboard predicted what was typed over time.

Consecutive messages are merged into points until each point has enough words to be meaningful. A template draws the
chart; this module only computes the coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import NamedTuple

FEWEST_WORDS = 50
"""Fewest words of a point: a share of fewer words is mostly noise."""
MOST_POINTS = 20
"""Most points: more are unreadable at the width of a phone."""
LATEST_WORDS = 200
"""Number of words that count as "lately"."""

WIDTH, HEIGHT = 320, 150
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 14, 24


@dataclass(frozen=True, slots=True)
class RecallCount:
    """How well the keyboard predicted the words of one message. Contains numbers only.

    Attributes:
        version: version of the model; 0 if there was none yet.
        top1: words that were the first suggestion before their first letter was typed.
        top3: words that were among the three suggestions before their first letter was typed.
    """

    typed_at_s: float
    version: int
    words: int
    top1: int
    top3: int


class Foreseen(NamedTuple):
    """Words typed, and how many of them were predicted."""

    words: int
    top1: int
    top3: int


def latest(counts: Sequence[RecallCount]) -> Foreseen:
    """Sum of the newest counts that together make about two hundred words.

    >>> latest([RecallCount(1, 1, 500, 0, 0), RecallCount(2, 1, 150, 20, 40), RecallCount(3, 1, 60, 9, 20)])
    Foreseen(words=210, top1=29, top3=60)
    """
    words = top1 = top3 = 0
    for count in reversed(counts):
        if words >= LATEST_WORDS:
            break
        words, top1, top3 = words + count.words, top1 + count.top1, top3 + count.top3
    return Foreseen(words, top1, top3)


class Mark(NamedTuple):
    """A position on the chart and its label."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Coordinates of the chart, in a box of ``WIDTH`` by ``HEIGHT``.

    Attributes:
        said: text alternative for people who cannot see the chart.
        top1: points of the words that were the first suggestion.
        top3: points of the words that were among the three suggestions.
        grid: horizontal lines with their shares.
        versions: where a new version of the model starts.
        times: times of the first and the last point: dates, or hours if both are on the same day.
    """

    said: str
    top1: tuple[Mark, ...]
    top3: tuple[Mark, ...]
    grid: tuple[Mark, ...]
    versions: tuple[Mark, ...]
    times: tuple[Mark, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def drawing(counts: Sequence[RecallCount], zone: tzinfo | None = None) -> Drawing | None:
    """Compute the chart of some counts, oldest first; None if there is nothing to draw."""
    points = _put_together(counts)
    if not points:
        return None
    highest = max(one.top3 / one.words for one in points)
    scale = next((share for share in (0.2, 0.4, 0.6, 0.8) if share >= highest), 1.0)

    def x(place: int) -> float:
        room = WIDTH - RIGHT - LEFT
        return round(LEFT + (place / (len(points) - 1) if len(points) > 1 else 0.5) * room, 1)

    def y(share: float) -> float:
        return round(HEIGHT - BOTTOM - share / scale * (HEIGHT - BOTTOM - TOP), 1)

    def line(hits: Sequence[int]) -> tuple[Mark, ...]:
        shares = [hit / one.words for hit, one in zip(hits, points, strict=True)]
        return tuple(Mark(x(place), y(share), f"{share:.0%}") for place, share in enumerate(shares))

    top1, top3 = line([one.top1 for one in points]), line([one.top3 for one in points])
    steps = [place for place, one in enumerate(points) if place and one.version != points[place - 1].version]
    begin, end = _times(points[0].typed_at_s, points[-1].typed_at_s, zone)
    return Drawing(
        said=(
            f"Words foreseen, from {begin} to {end}: among the three suggestions "
            f"{top3[0].label} at first and {top3[-1].label} now; as the first suggestion {top1[0].label} at first and "
            f"{top1[-1].label} now."
        ),
        top1=top1,
        top3=top3,
        grid=tuple(Mark(LEFT, y(share), f"{share:.0%}") for share in (0.0, scale / 2, scale)),
        versions=tuple(Mark(x(place), TOP, f"v{points[place].version}") for place in steps),
        times=tuple(Mark(x(place), HEIGHT - 6, time) for place, time in {0: begin, len(points) - 1: end}.items()),
    )


def _put_together(counts: Sequence[RecallCount]) -> list[RecallCount]:
    """Merge consecutive counts into points of enough words; each has the newest time and version of its counts."""
    fewest = max(FEWEST_WORDS, sum(one.words for one in counts) // MOST_POINTS)
    points: list[RecallCount] = []
    for one in counts:
        if points and points[-1].words < fewest:
            points.append(_sum(points.pop(), one))
        elif one.words:
            points.append(one)
    if len(points) > 1 and points[-1].words < fewest:  # the last point does not have enough words yet
        last = points.pop()
        points.append(_sum(points.pop(), last))
    return points


def _sum(older: RecallCount, newer: RecallCount) -> RecallCount:
    words, top1, top3 = older.words + newer.words, older.top1 + newer.top1, older.top3 + newer.top3
    return RecallCount(newer.typed_at_s, newer.version, words, top1, top3)


def _times(first_s: float, last_s: float, zone: tzinfo | None) -> tuple[str, str]:
    first, last = (datetime.fromtimestamp(at_s, zone).astimezone(zone) for at_s in (first_s, last_s))
    if first.date() == last.date():
        return f"{first:%H:%M}", f"{last:%H:%M}"
    return f"{first:%-d %b}", f"{last:%-d %b}"
