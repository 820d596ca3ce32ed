"""Baselines for the figures of versions: measured by ``model baseline``, or given in the configuration.

They are measured by :mod:`nightjar.models.baselines`, in a separate process.
"""

from __future__ import annotations

import msgspec

from nightjar.coordinator.config import TaskConfig
from nightjar.models.baselines import Baselines, Measured


class KeptBaselines(msgspec.Struct, frozen=True, kw_only=True):
    """Measured baselines, as the database stores them."""

    measured: Baselines  # the figures, and the data and settings that gave them
    made_s: float  # when they were measured; wall-clock time
    code_version: str  # Nightjar's version at the time


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline to show to people."""

    label: str  # name of the baseline
    top1: float  # recall of the best suggestion, 0 to 1
    top3: float  # recall of the best three suggestions, 0 to 1
    loss: float | None = None  # mean cross-entropy per target, nats; None if unknown
    source: str  # where the figures come from, in words


def compared(task: TaskConfig, kept: KeptBaselines | None) -> list[Compared]:
    """The baselines to show: the trigram and the central model if measured, otherwise the configured one, if any."""
    if kept is None:
        given = [] if task.baseline is None else [task.baseline]
        source = "given in the configuration"
        return [Compared(label=each.label, top1=each.top1, top3=each.top3, source=source) for each in given]
    of, trained = kept.measured, kept.measured.central
    on = f"{of.messages:,} messages of {of.corpus}"
    how = f"{of.epochs} epochs, {trained.steps:,} steps, learning rate {of.learning_rate:g}, seed {of.seed}"
    return [
        _measured("trigram", of.trigram, f"counted on {on}"),
        _measured("central", trained, f"trained in one place on {on}: {how}, Nightjar {kept.code_version}"),
    ]


def _measured(label: str, found: Measured, source: str) -> Compared:
    return Compared(label=label, top1=found.top1, top3=found.top3, loss=found.loss, source=source)
