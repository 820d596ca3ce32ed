"""Baselines for the figures of versions: measured by ``model baseline``, or given in the configuration.

They are measured by :mod:`models.baselines`, in a separate process.
"""

from __future__ import annotations

import msgspec

from coordinator.config import BaselineConfig, TaskConfig
from models.baselines import Baselines, Measured

TRIGRAM, CENTRAL = "trigram", "central"


class KeptBaselines(msgspec.Struct, frozen=True, kw_only=True):
    """Measured baselines, as the database stores them.

    Attributes:
        measured: the figures, and the data and settings that gave them.
        made_s: when they were measured; wall-clock time.
        code_version: Nightjar's version at the time.
    """

    measured: Baselines
    made_s: float
    code_version: str


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline to show to people.

    Attributes:
        label: name of the baseline.
        top1: recall of the best suggestion, 0 to 1.
        top3: recall of the best three suggestions, 0 to 1.
        loss: mean cross-entropy per target, nats; None if unknown.
        source: where the figures come from, in words.
    """

    label: str
    top1: float
    top3: float
    loss: float | None = None
    source: str


def compared(task: TaskConfig, kept: KeptBaselines | None) -> list[Compared]:
    """The baselines to show: the trigram and the central model if measured, otherwise the configured one, if any.

    Args:
        task: task settings from the configuration file.
        kept: baselines measured on the current held-out text; None if there are none.
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
