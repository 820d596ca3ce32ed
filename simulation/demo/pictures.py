"""The picture of a run, on the terminal and as a file: recall by round.

It has the fleet's model, the keyboard as its user has it, and that keyboard without the fleet's model; the file also
has the long run, if one is shown.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nightjar.simulation.demo.keyboards import KeyboardRecall
from nightjar.simulation.demo.replay import LongRun

MODEL, KEYBOARD, WITHOUT = "the fleet's model", "the keyboard as its user has it", "trigram + history, without it"
EXPLAINED = (
    "The keyboard mixes the fleet's model with an n-gram model of public text and with what its user wrote; trigram + "
    "history is the same keyboard without the fleet's model."
)
PICTURE = "recall.svg"
"""File of the picture, in the folder of a run."""
_WIDTH = 40
_MARKS = ((KEYBOARD, "◆", "green"), (MODEL, "●", "cyan"), (WITHOUT, "│", "blue"))
"""Where two fall on one place, the first is seen."""


def honest(rounds: int, phones: int, figure: str) -> str:
    """The sentence that says what a short run can and cannot show; ``figure`` is the task type's first one.

    >>> honest(1, 2, "accuracy")[:50]
    '1 round of 2 phones shows that the system works: v'
    """
    if not rounds:
        return "No round was committed, so this shows nothing of the model."
    subject = f"{rounds} round{'s' if rounds > 1 else ''} of {phones} phones show{'' if rounds > 1 else 's'}"
    return (
        f"{subject} that the system works: versions go out, updates come back, and {figure} moves from the start. "
        "How good a model can get takes hundreds of rounds of thousands of devices: docs/learning.md."
    )


def recall_picture(recall: KeyboardRecall) -> RenderableType:
    """Top-1 recall by version: a line for each with a mark for each predictor."""
    table = Table(title=f"top-1 recall on {recall.words:,} typed words", title_justify="left", box=None, padding=(0, 1))
    legend = Text()
    for name, mark, style in _MARKS:
        legend.append(f"{mark} {name}  ", style=style)
    for heading in ("version", "", "model", "keyboard", "without"):
        table.add_column(heading, justify="right" if heading not in {"version", ""} else "left", no_wrap=True)
    without = recall.trigram_history.top1
    scale = max(without, 0.01, *(each.top1 for each in (*recall.model, *recall.keyboard)))
    for version, model, keyboard in zip(recall.versions, recall.model, recall.keyboard, strict=True):
        shares = {MODEL: model.top1, KEYBOARD: keyboard.top1, WITHOUT: without}
        places = {round(_WIDTH * shares[name] / scale): (mark, style) for name, mark, style in reversed(_MARKS)}
        line = Text()
        for place in range(_WIDTH + 1):
            line.append(*places.get(place, ("·", "dim")))
        table.add_row(str(version), line, *(f"{100 * shares[name]:.1f} %" for name in (MODEL, KEYBOARD, WITHOUT)))
    return Group(table, legend, Text(EXPLAINED, style="dim"))


def draw(path: Path, recall: KeyboardRecall, sentence: str, run: LongRun | None) -> None:
    """Write the picture as SVG, with a sentence below, and a panel for the long run: other people, another text."""
    from matplotlib.figure import Figure  # takes a second to import

    figure = Figure(figsize=(7 if run is None else 12, 4.5), layout="constrained")
    axes, *others = figure.subplots(1, 1 if run is None else 2, squeeze=False)[0]
    for name, found, colour in ((KEYBOARD, recall.keyboard, "C2"), (MODEL, recall.model, "C0")):
        axes.plot(recall.versions, [100 * each.top1 for each in found], marker="o", color=colour, label=name)
    axes.axhline(100 * recall.trigram_history.top1, color="C1", linestyle="--", label=WITHOUT)
    axes.set_title("this run, emulated phones", fontsize=9)
    if run is not None:
        others[0].plot([point.round for point in run.curve], [100 * point.top1 for point in run.curve], label=MODEL)
        others[0].set_title(run.name, fontsize=9)
    for each in (axes, *others):
        each.set(xlabel="round", ylabel="top-1 recall, %", ylim=(0, None))
        each.grid(visible=True, alpha=0.3)
        each.legend()
    figure.supxlabel(sentence, fontsize=8, wrap=True)
    figure.savefig(path, metadata={"Date": None})
