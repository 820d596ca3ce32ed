"""Plots as SVG, drawn on the server by pygal: no script and no style of their own; colours come from nightjar.css.

Each drawing is kept for as long as its numbers are the same, because drawing takes longer than all else on a page. The
numbers themselves stand in a table beside each plot, so the SVG is one picture to a screen reader.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import pygal
from pygal.style import Style

# pygal leaves a hook for its map plugins among the importers, in a form that Python 3.11 warns of at every later import
# of something that is not installed.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]

MOST_POINTS = 120
"""Of a line; a screen shows no more, and a day of samples has a thousand."""
MOST_DOTS = 40
"""Of a line. More are no longer seen one by one, and take most of the time of drawing and of the bytes of a page."""
MOST_LABELS = 6
"""Below a plot; more would run into each other on a phone."""
KEPT = 32
"""Drawings in memory, about 30 kB each."""

_SIZES = Style(label_font_size=13, major_label_font_size=13)
"""As in nightjar.css; pygal leaves room for labels of this size."""

Series = tuple[str, tuple[float | None, ...]]
"""A name and its values."""


@functools.lru_cache(maxsize=KEPT)
def lines(name: str, labels: tuple[str, ...], series: tuple[Series, ...], unit: str = "") -> str:
    """Lines from zero: a cut axis makes little look like much.

    Args:
        name: what a screen reader says of the picture.
        labels: one for each point; most of them are left out.
        series: lines; the third and all that follow are level, to compare with, and have no dots.
        unit: of the values.
    """
    chart = _chart(pygal.Line, labels, unit, dots_size=3)
    for number, (title, values) in enumerate(series):
        chart.add(title, values, show_dots=number < 2 and len(labels) <= MOST_DOTS)
    return _svg(chart, name)


@functools.lru_cache(maxsize=KEPT)
def areas(name: str, labels: tuple[str, ...], series: tuple[Series, ...]) -> str:
    """Areas on top of each other, the first at the bottom; arguments as of :func:`lines`."""
    chart = _chart(pygal.StackedLine, labels, "", fill=True, show_dots=False)
    for title, values in series:
        chart.add(title, values)
    return _svg(chart, name)


@functools.lru_cache(maxsize=KEPT)
def bars(name: str, labels: tuple[str, ...], series: tuple[Series, ...], unit: str = "") -> str:
    """Bars on top of each other; arguments as of :func:`lines`."""
    chart = _chart(pygal.StackedBar, labels, unit)
    for title, values in series:
        chart.add(title, values)
    return _svg(chart, name)


def thinned(count: int, most: int = MOST_POINTS) -> list[int]:
    """Which of so many points to draw: evenly spread, the first and the last among them.

    >>> thinned(5), thinned(9, 3)
    ([0, 1, 2, 3, 4], [0, 4, 8])
    """
    if count <= most:
        return list(range(count))
    return [round(number * (count - 1) / (most - 1)) for number in range(most)]


def _chart(kind: Any, labels: Sequence[str], unit: str, **options: Any) -> Any:
    every = -(-len(labels) // MOST_LABELS) or 1
    chart = kind(
        width=460,
        height=210,
        margin=4,
        margin_right=16,
        spacing=6,
        truncate_label=-1,
        show_legend=False,  # the page has one, as text that wraps
        js=[],
        css=[],
        style=_SIZES,
        show_x_guides=False,
        show_minor_x_labels=False,
        include_x_axis=True,
        max_scale=5,
        value_formatter=lambda value: _short(value) + unit,
        **options,
    )
    chart.x_labels, chart.x_labels_major = labels, labels[::every]
    chart.add_xml_filter(_plain)
    return chart


def _short(value: float) -> str:
    for end, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:g} {end}"
    return f"{value:g}"


def _svg(chart: Any, name: str) -> str:
    svg: str = chart.render(is_unicode=True, disable_xml_declaration=True)
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escaped}" ', 1)


def _plain(root: Any) -> Any:
    """Leave the shapes and their titles: no style, no script, nothing that only a script shows."""
    root.attrib.pop("id", None)
    for parent in list(root.iter()):
        for child in list(parent):
            tag = child.tag if isinstance(child.tag, str) else "comment"
            kind = child.get("class", "") if tag != "comment" else ""
            if (
                tag in {"comment", "defs"}
                or "t-overlay" in kind
                or "tooltip-overlay" in kind
                or kind in {"value", "x centered", "y centered"}
            ):
                parent.remove(child)
    for title in list(root.findall("title")):
        root.remove(title)
    return root
