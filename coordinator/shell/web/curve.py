"""The recall curve as SVG, drawn on the server by pygal: no script, and colours from the page's own variables."""

from __future__ import annotations

import sys
from typing import Any

import pygal
from pygal.style import Style

from coordinator.shell.web.state import State

# pygal leaves a hook for its map plugins among the importers, in a form that Python 3.11 warns of at every later import
# of something that is not installed.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]

MOST_LABELS = 12
"""Versions named below the curve; more would run into each other."""

_STYLE = Style(
    background="transparent",
    plot_background="transparent",
    foreground="var(--quiet)",
    foreground_strong="var(--ink)",
    foreground_subtle="var(--faint)",
    guide_stroke_color="var(--faint)",
    major_guide_stroke_color="var(--faint)",
    guide_stroke_dasharray="none",
    major_guide_stroke_dasharray="none",
    colors=("var(--first)", "var(--third)", "var(--first)", "var(--third)"),
    font_family="inherit",
    label_font_size=15,
    major_label_font_size=15,
    legend_font_size=15,
    title_font_size=15,
    tooltip_font_size=14,
)


def recall_curve(state: State) -> str | None:
    """Top-1 and top-3 recall by version as inline SVG; None if fewer than two versions were measured."""
    measured = [
        (row.version, row.top1, row.top3) for row in state.versions if row.top1 is not None and row.top3 is not None
    ]
    if len(measured) < 2:
        return None
    chart = pygal.Line(
        style=_STYLE,
        width=900,
        height=300,
        margin=8,
        dots_size=3,
        stroke_style={"width": 2.5},
        show_legend=False,  # the page has one that grows with its text
        js=[],
        include_x_axis=True,  # from zero: a cut axis makes little look like much
        show_x_guides=False,
        value_formatter=lambda share: f"{share:.0f}" if share == round(share) else f"{share:.1f}",
        x_title="version",
        y_title="recall, %",
    )
    every = -(-len(measured) // MOST_LABELS)
    chart.x_labels = [str(version) if number % every == 0 else "" for number, (version, _, _) in enumerate(measured)]
    chart.add("top-1", [100 * top1 for _, top1, _ in measured])
    chart.add("top-3", [100 * top3 for _, _, top3 in measured])
    baseline = state.task.baseline
    if baseline is not None:
        dashed = {"stroke_style": {"width": 1.8, "dasharray": "7, 6"}, "show_dots": False}
        chart.add(f"{baseline.label} top-1", [100 * baseline.top1] * len(measured), **dashed)
        chart.add(f"{baseline.label} top-3", [100 * baseline.top3] * len(measured), **dashed)
    chart.add_xml_filter(_without_scripts)
    svg: str = chart.render(is_unicode=True, disable_xml_declaration=True)
    return svg


def _without_scripts(root: Any) -> Any:
    """Pygal writes its settings as a script, which the page's policy forbids and nothing needs."""
    for parent in list(root.iter()):
        for child in list(parent):
            if isinstance(child.tag, str) and child.tag.endswith("script"):
                parent.remove(child)
    return root
