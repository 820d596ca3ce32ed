"""SVG plots, drawn on the server by pygal without scripts or inline styles; colours come from nightjar.css.

Drawings are cached by their numbers, because drawing takes longer than everything else on a page. The numbers are also
in a table beside each plot, so to a screen reader the SVG is a single image.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import pygal
from pygal.style import Style

# pygal leaves an import hook for its map plugins, of a kind that Python 3.11 warns about at every later import of a
# module that is not installed.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]

MOST_POINTS = 120
"""Most points of a line: a screen shows no more, and a day of samples has a thousand."""
MOST_DOTS = 40
"""Most points of a line with dots. More dots cannot be told apart, and dominate the drawing time and the page size."""
MOST_LABELS = 6
"""Most labels below a plot; more would overlap on a phone."""
KEPT = 32
"""Cached drawings, about 30 kB each."""

_SIZES = Style(label_font_size=13, major_label_font_size=13)
"""Font sizes as in nightjar.css; pygal reserves space for labels of this size."""

Series = tuple[str, tuple[float | None, ...]]
"""Name and values of a line, an area or bars."""
Estimate = tuple[float, float | None]
"""A mean and its standard error, if it is known."""


@functools.lru_cache(maxsize=KEPT)
def lines(name: str, labels: tuple[str, ...], series: tuple[Series, ...], unit: str = "") -> str:
    """A line plot from zero: a truncated axis would exaggerate small changes.

    ``name`` describes the image for screen readers. From the third on, series are level reference lines without dots.
    """
    chart = _chart(pygal.Line, labels, unit, dots_size=3)
    for number, (title, values) in enumerate(series):
        chart.add(title, values, show_dots=number < 2 and len(labels) <= MOST_DOTS)
    return _svg(chart, name)


@functools.lru_cache(maxsize=KEPT)
def estimates(name: str, labels: tuple[str, ...], values: tuple[Estimate, ...], marked: int, unit: str = "") -> str:
    """A line plot of means with error bars of two standard errors; the point at index ``marked`` stands out."""
    chart = _chart(pygal.Line, labels, unit, dots_size=3)
    points = [
        {"value": mean} if error is None else {"value": mean, "ci": {"low": mean - 2 * error, "high": mean + 2 * error}}
        for mean, error in values
    ]
    chart.range = (0, max(mean + 2 * (error or 0) for mean, error in values))
    chart.add("mean", points, show_dots=len(labels) <= MOST_DOTS)
    chart.add("marked", [mean if at == marked else None for at, (mean, _) in enumerate(values)], dots_size=5)
    return _svg(chart, name)


@functools.lru_cache(maxsize=KEPT)
def bars(name: str, labels: tuple[str, ...], series: tuple[Series, ...], unit: str = "") -> str:
    """A stacked bar plot; arguments as for :func:`lines`."""
    chart = _chart(pygal.StackedBar, labels, unit)
    for title, values in series:
        chart.add(title, values)
    return _svg(chart, name)


def thinned(count: int, most: int = MOST_POINTS) -> list[int]:
    """Indices of the points to draw: evenly spaced, including the first and the last.

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
        show_legend=False,  # the page has a legend as text, which wraps
        js=[],
        css=[],
        style=_SIZES,
        show_x_guides=False,
        show_minor_x_labels=False,
        include_x_axis=True,
        max_scale=5,
        value_formatter=lambda value: _short(value, unit),
        **options,
    )
    chart.x_labels, chart.x_labels_major = labels, labels[::every]
    chart.add_xml_filter(_plain)
    return chart


def _short(value: float, unit: str) -> str:
    """A value at an axis; empty between two whole numbers of what is counted."""
    if not unit and value != round(value):
        return ""
    for end, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:g} {end}{unit}"
    return f"{value:g} {unit}".strip()


def _svg(chart: Any, name: str) -> str:
    svg: str = chart.render(is_unicode=True, disable_xml_declaration=True)
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escaped}" ', 1)


def _plain(root: Any) -> Any:
    """Keep only shapes and their titles: remove styles, scripts, and elements that only a script would show."""
    root.attrib.pop("id", None)
    for parent in list(root.iter()):
        for child in list(parent):
            tag = child.tag if isinstance(child.tag, str) else "comment"
            kind = child.get("class", "") if tag != "comment" else ""
            if (
                tag in {"comment", "defs"}
                or "t-overlay" in kind
                or "tooltip-overlay" in kind
                or ("rect" in kind and float(child.get("height", 1)) == 0)
                or kind in {"value", "x centered", "y centered"}
            ):
                parent.remove(child)
    for title in list(root.findall("title")):
        root.remove(title)
    return root
