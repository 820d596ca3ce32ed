"""What a report costs beside what the model learns from it, as a picture: SVG or PNG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.codec_study.results import Outcome, Spread
from wire.errors import UnavailableError


def draw(found: Sequence[Outcome], path: Path) -> None:
    """Draw share of dense's fall in loss and of its rise in recall against bytes, one column a population.

    Filled marks are with error feedback, hollow ones without; bars are one standard deviation over the seeds. Trainings
    with late reports are left out.

    Raises:
        UnavailableError: the file cannot be written.
    """
    populations = list(dict.fromkeys(row.population for row in found))
    colours = {codec: f"C{number}" for number, codec in enumerate(dict.fromkeys(row.codec for row in found))}
    # Text stays text and nothing depends on the day or the run, so that the same results give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "nightjar", "font.size": 9}):
        figure = Figure(figsize=(10.5, 6.5), layout="constrained")
        panels = figure.subplots(2, len(populations), sharex=True, sharey="row", squeeze=False)
        for column, population in enumerate(populations):
            rows = [row for row in found if row.population == population and not row.late_share]
            for axes, of in zip(panels[:, column], (_nll_share, _recall_share), strict=True):
                _panel(axes, rows, of, colours)
            panels[0, column].set_title(f"population: {population}")
            panels[1, column].set_xlabel("bytes a report, len(frame)")
        panels[0, 0].set_ylabel("share of dense's fall in loss")
        panels[1, 0].set_ylabel("share of dense's rise in top-3 recall")
        shown = [axes.get_legend_handles_labels() for axes in panels.flat]
        series = {label: handle for handles, labels in shown for handle, label in zip(handles, labels, strict=True)}
        figure.legend(series.values(), series.keys(), loc="outside right center", frameon=False)
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=150, metadata=metadata)
        except OSError as error:
            msg = f"cannot write the picture to {path}: {error.strerror or error}"
            raise UnavailableError(msg) from error


def _nll_share(row: Outcome) -> Spread:
    return row.share


def _recall_share(row: Outcome) -> Spread:
    return row.top3_share


def _panel(axes: Axes, rows: Sequence[Outcome], of: Callable[[Outcome], Spread], colours: Mapping[str, str]) -> None:
    axes.set_xscale("log")
    axes.grid(visible=True, alpha=0.3)
    axes.axhline(1.0, color="grey", linewidth=0.8, linestyle="--")
    for codec, colour in colours.items():
        for feedback in (False, True):
            points = [row for row in rows if (row.codec, row.error_feedback) == (codec, feedback)]
            points.sort(key=lambda row: row.density)
            if points:
                axes.errorbar(
                    [row.report_bytes for row in points],
                    [of(row).mean for row in points],
                    [of(row).deviation for row in points],
                    label=f"{codec}, error feedback" if feedback else codec,
                    color=colour,
                    marker="o",
                    markerfacecolor=colour if feedback else "white",
                    linestyle="-" if feedback else ":",
                    linewidth=1.2,
                    capsize=2.5,
                )
