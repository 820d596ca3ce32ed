"""The product's own gate and pause in a run: which version keyboards have, and which one rounds go on from.

After each round the devices of its cohort have measured the version that they trained from, the *base*, and the
announced one, with their whole keyboards (:mod:`nightjar.simulation.laboratory.keyboards`). The coordinator's
:func:`nightjar.coordinator.versions.announcement.verdict` judges the base: it is announced, rounds go on without that,
or it is taken back with the version that was just trained from it, and rounds go on from the announced one. A version
whose recall collapses on the text of the people held out is refused. Versions have the numbers of their rounds; 0 is
the start.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.learning.device_metrics import Tally, keystrokes, merged
from nightjar.coordinator.tasks.schedule import StopRule
from nightjar.coordinator.tasks.task import RoundCommitted, Task, step
from nightjar.coordinator.versions.announcement import KeyboardOutcome, verdict
from nightjar.coordinator.versions.quality_gate import COLLAPSE, COMPARED_WITH, VersionMetrics, faults
from nightjar.simulation.laboratory.experiment import GateSettings
from nightjar.wire.frame import KeyboardEvaluation


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What a run knows of its versions between two rounds.

    Attributes:
        base: the version that rounds go on from.
        announced: the versions that keyboards got, in order; they have the last.
        tallies: what devices measured of each version.
        saved: version -> person -> keystrokes that the person's keyboard saves with it, percent.
        figures: how the last two versions compared of which the better one is announced, in words.
        line: recall and loss on the text of the people held out, of the newest versions that were not refused.
        task: the state of the task; a round commits it, and pauses it if the rounds gain nothing.
    """

    base: int = 0
    announced: tuple[int, ...] = (0,)
    tallies: Mapping[int, Tally] = {}
    saved: Mapping[int, Mapping[int, float]] = {}
    figures: str = ""
    line: tuple[VersionMetrics, ...] = ()
    task: Task = Task(name="laboratory", number=1, created_s=0.0)

    @property
    def paused(self) -> str:
        """Why no further rounds are run; empty if they are."""
        return self.task.reason


def after_round(
    gate: Gate,
    number: int,
    measured: Mapping[int, KeyboardEvaluation],
    trained: VersionMetrics,
    settings: GateSettings,
) -> Gate:
    """The gate after a round that trained version ``number`` from the base.

    Args:
        gate: before the round.
        number: of the round.
        measured: person -> what the device found of the base and the announced version.
        trained: what the new version knows of the text of the people held out.
        settings: least number of devices and patience.
    """
    announced, base = gate.announced[-1], gate.base
    tally = merged(gate.tallies.get(base, Tally()), keystrokes(measured.values()))
    percent = {person: 100 * each.saved / each.letters for person, each in measured.items()}
    found = verdict(tally, base, announced, settings.minimum)
    figures = gate.figures if base == announced else found.reason
    if base != announced and found.outcome is KeyboardOutcome.BETTER:
        announced = base
    elif base != announced and found.outcome is KeyboardOutcome.WORSE:
        base = announced
    kept = base == gate.base and not faults(trained, gate.line, COLLAPSE)
    gained = announced != gate.announced[-1]
    rule = StopRule(patience=settings.patience)
    committed = RoundCommitted(float(number), rule, announced=announced, figures=figures)
    return replace(
        gate,
        base=number if kept else base,
        announced=(*gate.announced, announced) if gained else gate.announced,
        tallies={**gate.tallies, gate.base: tally},
        saved={**gate.saved, gate.base: {**gate.saved.get(gate.base, {}), **percent}},
        figures=figures,
        line=(*gate.line, trained)[-COMPARED_WITH:] if kept else gate.line,
        task=step(gate.task, committed),
    )
