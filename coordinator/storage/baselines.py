"""What the recall of versions is compared with: measured by ``model baseline``, or given in the configuration.

Nothing is measured here; :mod:`models.baselines` does that, in a process of its own.
"""

from __future__ import annotations

import msgspec

from coordinator.config import BaselineConfig, TaskConfig
from models.baselines import Baselines, Measured

TRIGRAM, CENTRAL = "trigram", "central"


class KeptBaselines(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, as the database keeps it.

    Attributes:
        measured: the figures, and what they were made of.
        made_s: wall-clock time.
        code_version: of Nightjar.
    """

    measured: Baselines
    made_s: float
    code_version: str


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A recall to compare with, for people.

    Attributes:
        label: what it is.
        top1: recall of the best suggestion, 0 to 1.
        top3: recall of the best three, 0 to 1.
        loss: mean cross-entropy per target, nats; None where nobody knows it.
        source: where the figures are from, in words.
    """

    label: str
    top1: float
    top3: float
    loss: float | None = None
    source: str


def compared(task: TaskConfig, kept: KeptBaselines | None) -> list[Compared]:
    """The trigram and the central model, as far as they are known: what was measured counts more than what was given.

    Args:
        task: of the file.
        kept: what was measured on the text that versions are measured on; None if nothing was.
    """
    if kept is None:
        return [] if task.baseline is None else [_given(task.baseline)]
    of, trained = kept.measured, kept.measured.central
    on = f"{of.messages:,} messages of {of.corpus}"
    how = f"{of.epochs} epochs, {trained.steps:,} steps, learning rate {of.learning_rate:g}, seed {of.seed}"
    return [
        _measured(TRIGRAM, of.trigram, f"counted on {on}"),
        _measured(CENTRAL, trained, f"trained in one place on {on}: {how}, Nightjar {kept.code_version}"),
    ]


def _measured(label: str, found: Measured, source: str) -> Compared:
    return Compared(label=label, top1=found.top1, top3=found.top3, loss=found.loss, source=source)


def _given(each: BaselineConfig) -> Compared:
    return Compared(label=each.label, top1=each.top1, top3=each.top3, source="given in the configuration")
