"""The finished trainings in experiments/linear/results.json, and their picture."""

from __future__ import annotations

from pathlib import Path

import msgspec
from matplotlib.figure import Figure

from experiments.linear.variants import DENSE
from host.files import replace_file

RESULTS = Path(__file__).parent / "results.json"
IMAGE = Path("docs") / "images" / "linear.svg"
EARLY = 10
"""Rounds in which a model from random weights learns little but how frequent words are."""


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """A finished training.

    Attributes:
        model: name of the model.
        start: random or warm.
        variant: name of the compressor.
        rounds: how many.
        report_bytes: length of a report's values.
        bytes_down: what a device is sent to encode them, beside the model.
        losses: validation loss by rounds, nats.
        top1: recall at the end, 0 to 1.
        top3: recall at the end, 0 to 1.
        commit: of the code.
    """

    model: str
    start: str
    variant: str
    rounds: int
    report_bytes: int
    bytes_down: int
    losses: dict[int, float]
    top1: float
    top3: float
    commit: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the training."""
        return self.model, self.start, self.variant


class Compared(msgspec.Struct, frozen=True):
    """A training beside that with dense updates.

    Attributes:
        trained: the training.
        share: its fall of the loss in the last round, as a share of that with dense updates.
        late_share: the same without dense's fall in the first ten rounds, most of which is word frequency.
    """

    trained: Trained
    share: float
    late_share: float


def results(path: Path = RESULTS) -> list[Trained]:
    """The finished trainings, by model and start."""
    return msgspec.json.decode(path.read_bytes(), type=list[Trained]) if path.exists() else []


def record(trained: Trained, path: Path = RESULTS) -> None:
    """Add a finished training; one of the same key is replaced."""
    kept = [*(each for each in results(path) if each.key != trained.key), trained]
    kept.sort(key=lambda each: (each.model, each.start, each.report_bytes))
    replace_file(path, msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def compared(found: list[Trained]) -> list[Compared]:
    """Each training whose dense counterpart is known."""
    dense = {(each.model, each.start): each for each in found if each.variant == DENSE.name}
    rows = []
    for each in found:
        best = dense.get((each.model, each.start))
        if best is not None:
            first, early, end = (best.losses[number] for number in (0, EARLY, each.rounds))
            fall = first - each.losses[each.rounds]
            rows.append(Compared(each, fall / (first - end), (fall - first + early) / (early - end)))
    return rows


def draw(path: Path = IMAGE) -> None:
    """Draw the shares by bytes."""
    rows = [each for each in compared(results()) if each.trained.variant != DENSE.name]
    kinds = sorted({(each.trained.model, each.trained.start) for each in rows})
    figure = Figure(figsize=(8, 4.2 * max(len(kinds), 1)), layout="constrained")
    for (model, start), axes in zip(kinds, figure.subplots(max(len(kinds), 1), squeeze=False)[:, 0], strict=False):
        for each in rows:
            if (each.trained.model, each.trained.start) == (model, start):
                color = "C1" if each.trained.variant.startswith("low-rank") else "C0"
                axes.plot(each.trained.report_bytes / 1000, each.share, marker="o", color=color)
                place = (each.trained.report_bytes / 1000, each.share)
                axes.annotate(each.trained.variant, place, (4, 4), textcoords="offset points", fontsize="x-small")
        axes.set_title(f"{model}, {start} start", fontsize="medium")
        axes.set_xscale("log")
        axes.set_xlabel("kB of a report")
        axes.set_ylabel("fall of the loss, of dense's")
        axes.axhline(1, color="gray", linewidth=1)
        axes.grid(visible=True, alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
