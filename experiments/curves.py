"""``python -m experiments.curves``: draws the curves of experiments/results.json as docs/images/learning.svg."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from experiments.record import results

IMAGE = Path("docs") / "images" / "learning.svg"
LEAST = 5
"""Points of a curve that is worth drawing."""


def main(path: Path = IMAGE) -> None:
    """Draw top-1 recall by rounds; a result that was recorded without its curve is left out.

    Args:
        path: of the SVG.
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for recorded in results():
        if len(recorded.curve) >= LEAST:
            axes.plot(
                [point.round for point in recorded.curve],
                [100 * point.top1 for point in recorded.curve],
                marker=".",
                label=recorded.name,
            )
    axes.set_xlabel("round")
    axes.set_ylabel("top-1 recall, %")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
