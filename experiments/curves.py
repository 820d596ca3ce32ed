"""``python -m nightjar.experiments.curves``: draws the curves of experiments/results.json in docs/images.

The laboratory's are ``learning.svg``; a page's are ``PAGE.svg``, one part for each row that has curves;
``communication.svg`` sets the error of several pages against simulated time, and ``privacy.svg`` what was learned with
differential privacy against epsilon and people.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

from nightjar.experiments.frame import ResultRow
from nightjar.experiments.record import CHAT, results

IMAGES = Path("docs") / "images"
FAMILIES = {
    "local steps": ("delay", "catalogue.adacomm"),
    "models of their own": ("catalogue.easgd", "catalogue.overlap"),
    "compression": ("catalogue.random_k", "catalogue.two_sided", "catalogue.adaptive_density"),
    "pruning": ("catalogue.pruning",),
}
"""Family -> its pages."""
PRIVATE = re.compile(r"Chat, DP: epsilon ([\d.]+), ([\d,]+) people, 200 rounds")
NOISELESS = "Chat, DP: clipped, hardly any noise, 200 rounds"
EPSILON, PEOPLE = 10, 1_000_000
"""Where the two curves of differential privacy cross."""
LEAST = 5
"""Points of a curve that is worth drawing."""
RANDOM = 0.05
"""Random weights have less top-1 recall than this, a warm start more."""


def main(folder: Path = IMAGES) -> None:
    """Draw every curve that was recorded.

    Args:
        folder: of the SVGs.
    """
    mpl.rcParams["svg.hashsalt"] = "nightjar"  # the same curves are the same file
    recorded = results()
    _laboratory(folder / "learning.svg", recorded)
    _privacy(folder / "privacy.svg", recorded)
    drawn = [each for each in recorded if each.curves]
    _communication(folder / "communication.svg", drawn)
    for page in sorted({each.page for each in drawn}):
        _page(folder / f"{page}.svg", [each for each in drawn if each.page == page])


def _page(path: Path, rows: Sequence[ResultRow]) -> None:
    panels: dict[str, list[ResultRow]] = {}
    for each in rows:
        panels.setdefault(_panel(each), []).append(each)
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(4 * across, 3.2 * down), layout="constrained")
    parts = figure.subplots(down, across, squeeze=False).flat
    for part, (title, mine) in zip(parts, panels.items(), strict=False):
        for line, points in (line for each in mine for line in each.curves.items()):
            part.plot([x for x, _ in points], [y for _, y in points], label=line, linewidth=1)
        if mine[0].page == "thesis":
            part.set_ylim(0.8, 1)  # its targets are 0.97 to 0.99
        part.set_title(title, fontsize="small")
        part.set_xlabel(mine[0].axes[0])
        part.set_ylabel(mine[0].axes[1])
        part.grid(visible=True, alpha=0.3)
        part.legend(fontsize="x-small")
    for part in list(figure.axes)[len(panels) :]:
        part.set_axis_off()
    figure.savefig(path, metadata={"Date": None})


def _panel(row: ResultRow) -> str:
    """Rows of the same panel are drawn together: of the thesis, a table and a network."""
    return row.name.rsplit(" ", 1)[0] if row.page == "thesis" else row.name


def _communication(path: Path, rows: Sequence[ResultRow]) -> None:
    """Error against simulated time, a part for each family of ways to communicate less."""
    figure = Figure(figsize=(12, 7), layout="constrained")
    for part, (family, pages) in zip(figure.subplots(2, 2).flat, FAMILIES.items(), strict=True):
        for each in (each for each in rows if each.page in pages and each.axes[0] == "second"):
            for line, points in each.curves.items():
                label = f"{each.name}: {line}"
                part.plot([x for x, _ in points], [1 - y for _, y in points], label=label, linewidth=1)
        part.set(title=family, xlabel="simulated second", ylabel="error", yscale="log")
        part.grid(visible=True, alpha=0.3)
        if part.lines:
            part.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})


def _privacy(path: Path, rows: Sequence[ResultRow]) -> None:
    """What 200 rounds gain, by epsilon and by people, below what they gain without noise."""
    outcomes = {each.name: each.outcome for each in rows if each.outcome is not None}
    gains = {name: 100 * (outcome.top1 - outcome.top1_start) for name, outcome in outcomes.items()}
    matches = [(found, gain) for name, gain in gains.items() if (found := PRIVATE.fullmatch(name))]
    points = sorted((float(found[1]), int(found[2].replace(",", "")), gain) for found, gain in matches)
    by_epsilon = [(epsilon, gain) for epsilon, people, gain in points if people == PEOPLE]
    by_people = [(people, gain) for epsilon, people, gain in points if epsilon == EPSILON]
    most = gains[NOISELESS]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    parts = figure.subplots(1, 2, sharey=True)
    for part, line, title, along in (
        (parts[0], by_epsilon, f"{PEOPLE:,} people", "epsilon"),
        (parts[1], by_people, f"epsilon {EPSILON}", "people"),
    ):
        part.plot(*zip(*line, strict=True), marker="o")
        part.axhline(most, color="gray", linestyle="--", label="without noise")
        part.set(title=title, xlabel=along, xscale="log", ylim=(0, 1.15 * most))
        part.grid(visible=True, alpha=0.3)
    parts[0].set_ylabel("gain in top-1 recall, points")
    parts[0].legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def _laboratory(path: Path, rows: Sequence[ResultRow]) -> None:
    """Recall by rounds of the laboratory's runs, the best named first; a part for each model and start."""
    panels: dict[str, list[ResultRow]] = {}
    drawn = [(each, each.outcome) for each in rows if each.outcome and len(each.curve) >= LEAST]
    for each, outcome in sorted(drawn, key=lambda pair: pair[0].curve[-1].top1, reverse=True):
        start = "random weights" if outcome.top1_start < RANDOM else "a warm start"
        title = "a household" if outcome.announced_versions else f"from {start}"
        panels.setdefault(f"{outcome.model}, {title}", []).append(each)
    figure = Figure(figsize=(11, 3.4 * len(panels)), layout="constrained")
    parts = figure.subplots(len(panels), 1, sharey=True, squeeze=False).flat
    for part, (title, mine) in zip(parts, sorted(panels.items()), strict=True):
        # Ten colours, then the same with dashes
        part.set_prop_cycle(cycler(linestyle=["-", "--"]) * cycler(color=mpl.color_sequences["tab10"]))
        for each in mine:
            recall = [100 * point.top1 for point in each.curve]
            part.plot([point.round for point in each.curve], recall, marker=".", label=each.name.removeprefix(CHAT))
        part.set(title=title, xlabel="round", ylabel="top-1 recall, %", ylim=(8, None))  # random weights begin at 0
        part.grid(visible=True, alpha=0.3)
        part.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
