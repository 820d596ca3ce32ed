"""``python -m nightjar.benchmarks.attack.plot``: draws what the attacks got, from the JSON of one or more runs.

Lines are means over the runs, and bands reach from the least to the most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import matplotlib as mpl
import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nightjar.benchmarks.attack.malicious import BACKDOORS
from nightjar.benchmarks.attack.measure_harm import Harm
from nightjar.benchmarks.attack.measure_leaks import Leak

Points = Mapping[float, list[float]]
"""x -> the values of the runs there."""


class AttackFigures(msgspec.Struct, frozen=True):
    """What :mod:`nightjar.benchmarks.attack` writes as JSON, but for its settings."""

    confidentiality: list[Leak]
    integrity: list[Harm]


def plot(path: Path, runs: Iterable[AttackFigures]) -> None:
    """Write the recall of typed words by cohort, and the success of backdoors by share, as SVG."""
    words, guesses, backdoors = _no_points(), _no_points(), _no_points()
    for run in runs:
        for leak in run.confidentiality:
            if leak.attack == "words-two-versions" and isinstance(leak.recall, float):
                words[leak.defence][leak.cohort].append(100 * leak.recall)
                guesses[leak.defence][leak.cohort].append(100 * (leak.guess_recall or 0.0))
        for harm in run.integrity:
            if harm.attack in {each.value for each in BACKDOORS}:
                name = f"{harm.attack}, {harm.defence}, {harm.rounds} rounds"
                backdoors[name][100 * harm.share].append(100 * harm.backdoor_success)
    mpl.rcParams["svg.hashsalt"] = "nightjar"  # the same figures are the same file
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, name in enumerate(words):
        _line(left, words[name], name, f"C{number}", "-")
        _line(left, guesses[name], f"guess beside {name}", f"C{number}", ":")
    left.set(xscale="log", xlabel="devices in the cohort", ylabel="typed words named, %", ylim=(0, 102))
    sizes = sorted({size for points in words.values() for size in points})
    left.set_xticks(sizes, labels=[f"{size:g}" for size in sizes])
    left.minorticks_off()
    several = [name for name, points in backdoors.items() if len(points) > 1]
    for number, name in enumerate(several):
        _line(right, backdoors[name], name, f"C{number}", "-")
    right.set(xlabel="malicious devices, %", ylabel="backdoor suggested, %", ylim=(-2, 102))
    for part in (left, right):
        part.grid(visible=True, alpha=0.3)
        if part.lines:
            part.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def _no_points() -> dict[str, dict[float, list[float]]]:
    return defaultdict(lambda: defaultdict(list))


def _line(axes: Axes, points: Points, name: str, colour: str, style: str) -> None:
    along = sorted(points)
    axes.plot(along, [sum(points[x]) / len(points[x]) for x in along], style, color=colour, marker=".", label=name)
    axes.fill_between(along, [min(points[x]) for x in along], [max(points[x]) for x in along], color=colour, alpha=0.15)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--out", default=Path("docs/images/attack.svg"), show_default=True, type=click.Path(path_type=Path))
def main(files: tuple[Path, ...], out: Path) -> None:
    """Draw the attacks of FILES, each the JSON of a run."""
    plot(out, [msgspec.json.decode(file.read_bytes(), type=AttackFigures) for file in files])


if __name__ == "__main__":
    main()
