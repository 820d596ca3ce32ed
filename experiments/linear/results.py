"""The finished trainings in experiments/linear/results.json."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nightjar.experiments.linear.variants import DENSE
from nightjar.host.files import replace_file

RESULTS = Path(__file__).parent / "results.json"
EARLY = 10
"""Rounds in which a model from random weights learns little but how frequent words are."""


class TrainedRun(msgspec.Struct, frozen=True, kw_only=True):
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


class ComparedRun(msgspec.Struct, frozen=True):
    """A training beside that with dense updates.

    Attributes:
        trained: the training.
        share: its fall of the loss in the last round, as a share of that with dense updates.
        late_share: the same without dense's fall in the first ten rounds, most of which is word frequency.
    """

    trained: TrainedRun
    share: float
    late_share: float


def results(path: Path = RESULTS) -> list[TrainedRun]:
    """The finished trainings, by model and start."""
    return msgspec.json.decode(path.read_bytes(), type=list[TrainedRun]) if path.exists() else []


def record(trained: TrainedRun, path: Path = RESULTS) -> None:
    """Add a finished training; one of the same key is replaced."""
    kept = [*(each for each in results(path) if each.key != trained.key), trained]
    kept.sort(key=lambda each: (each.model, each.start, each.report_bytes))
    replace_file(path, msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def compared(found: list[TrainedRun]) -> list[ComparedRun]:
    """Each training whose dense counterpart is known."""
    dense = {(each.model, each.start): each for each in found if each.variant == DENSE.name}
    rows = []
    for each in found:
        best = dense.get((each.model, each.start))
        if best is not None:
            first, early, end = (best.losses[number] for number in (0, EARLY, each.rounds))
            fall = first - each.losses[each.rounds]
            rows.append(ComparedRun(each, fall / (first - end), (fall - first + early) / (early - end)))
    return rows
