"""Draws docs/images/linear.svg: what compressors keep of dense updates, by bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nightjar.experiments.linear.results import EARLY, compared, results
from nightjar.experiments.linear.screening import screened
from nightjar.experiments.linear.variants import DENSE

IMAGE = Path("docs") / "images" / "linear.svg"
Mark = tuple[str, int, float]
"""A compressor: its name, bytes and share."""


def draw(path: Path = IMAGE) -> None:
    """Draw a panel for what was screened of each model, and one for the trainings of each model and start."""
    panels: dict[str, list[Mark]] = {}
    for screening in screened():
        title = f"{screening.model}: cosine to the dense mean of the same devices"
        panels.setdefault(title, []).append((screening.variant, screening.report_bytes, screening.cosine))
    for each in compared(results()):
        if each.trained.variant != DENSE.name:
            title = (
                f"{each.trained.model}, {each.trained.start} start: fall of the loss after round {EARLY} beside dense's"
            )
            name = f"{each.trained.variant}, {each.trained.rounds} rounds"
            panels.setdefault(title, []).append((name, each.trained.report_bytes, each.late_share))
    figure = Figure(figsize=(8, 3.6 * len(panels)), layout="constrained")
    for number, (title, marks) in enumerate(panels.items(), 1):
        _panel(figure.add_subplot(len(panels), 1, number), title, marks)
    figure.savefig(path, metadata={"Date": None})


def _panel(axes: Axes, title: str, marks: Sequence[Mark]) -> None:
    for name, size, share in marks:
        place = (size / 1000, share)
        axes.plot(*place, marker="o", color="C1" if name.startswith("low-rank") else "C0")
        axes.annotate(name, place, (4, 4), textcoords="offset points", fontsize="x-small")
    axes.set_title(title, fontsize="medium")
    axes.set_xscale("log")
    axes.set_xlabel("kB of a report")
    axes.set_ylim(0, 1.1)
    axes.set_xlim(3, 400)
    axes.grid(visible=True, alpha=0.3)
