"""The curve of a run, or of several: recall by rounds, with the spread over seeds and the references beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from nightjar.simulation.laboratory.checkpoint import Point


def plot(path: Path, curves: Mapping[str, Sequence[Sequence[Point]]], references: Mapping[str, float]) -> None:
    """Write top-1 recall by rounds as SVG and PNG; by hours if each curve has them.

    ``path`` has no suffix. Curves have a name and one line for each seed, measured in the same rounds; each reference
    is a top-1 recall from 0 to 1, drawn as a line across.
    """
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    timed = all(point.hours is not None for seeds in curves.values() for curve in seeds for point in curve)
    for name, seeds in curves.items():
        along = [[point.hours if timed else point.round for point in curve] for curve in seeds]
        steps = np.array(along, np.float64).mean(axis=0)
        recall = 100 * np.array([[point.top1 for point in curve] for curve in seeds])
        axes.plot(steps, recall.mean(axis=0), marker=".", label=name)
        if len(seeds) > 1:
            axes.fill_between(steps, recall.min(axis=0), recall.max(axis=0), alpha=0.2)
    for number, (name, top1) in enumerate(references.items()):
        axes.axhline(100 * top1, color=f"C{len(curves) + number}", linestyle="--", label=name)
    axes.set_xlabel("hours" if timed else "round")
    axes.set_ylabel("top-1 recall, %")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), metadata={"Date": None} if suffix == ".svg" else None)
