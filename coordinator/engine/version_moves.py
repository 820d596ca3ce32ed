"""Moves versions between stages, and keeps the versions of a line consistent.

At any time one version of a line is CURRENT, at most one is CANARY, and at most one is TRAINING: rounds go on from that
one while keyboards keep the current one (docs/adr/0056). Nothing is judged here.
"""

from __future__ import annotations

from msgspec.structs import replace

from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.effects import AnnounceModel
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.versions.announcement import LEAST_DEVICES, KeyboardVerdict, verdict
from nightjar.coordinator.versions.rollout import Event, Overtaken, Stage, step

MOST_CHARACTERS = 500
"""Maximum length of a stored reason."""

_TOLD = frozenset({Stage.CANARY, Stage.CURRENT, Stage.ROLLED_BACK})
"""Stages that change which version devices use."""


class VersionMoves:
    """Applies events to versions; keyboards are told of those of the task ``first``."""

    def __init__(self, first: str) -> None:
        self._first = first

    def move(self, record: VersionRecord, event: Event, unit: UnitOfWork) -> None:
        """Apply one event to one version, and update the other versions of its line."""
        rollout = step(record.rollout, event)
        moved = replace(record, rollout=replace(rollout, reason=rollout.reason[:MOST_CHARACTERS]))
        stage = rollout.stage
        if stage in {Stage.CURRENT, Stage.TRAINING}:
            self._take_place(moved, unit)
        elif stage is not Stage.CANARY:
            training = unit.snapshot.training.get(moved.task)
            if training is not None and training.version == moved.version:
                del unit.snapshot.training[moved.task]
            moved = self._without_state(moved, unit)
        unit.tx.save_version(moved)
        if stage is Stage.ROLLED_BACK:
            unreleased = record.rollout.stage is Stage.TRAINING  # no keyboard had it, so nobody need be alarmed
            unit.tx.count("versions_refused" if unreleased else "versions_rolled_back")
        if stage in _TOLD or record.rollout.stage is Stage.CANARY:
            unit.snapshot.number = unit.tx.draw_number(unit.now_s)
            if moved.task == self._first:
                unit.effects.append(AnnounceModel())
        say = unit.warn if stage in {Stage.REFUSED, Stage.ROLLED_BACK} else unit.log
        name = f"version_{stage.value.replace('-', '_')}"
        say(name, version=moved.version, task=moved.task, reason=moved.rollout.reason)

    def _take_place(self, moved: VersionRecord, unit: UnitOfWork) -> None:
        """Put a version that is current now, or in training, in the place of the one before it.

        Rounds go on from it in both cases, so it also takes the place of another version in training.
        """
        announced, training = unit.snapshot.versions.get(moved.task), unit.tx.training_version(moved.task)
        unit.snapshot.training.pop(moved.task, None)
        current = moved.rollout.stage is Stage.CURRENT
        (unit.snapshot.versions if current else unit.snapshot.training)[moved.task] = moved
        if training is not None and training.version != moved.version:
            found = "" if announced is None else found_by_keyboards(training, announced, unit).reason
            self.move(training, Overtaken(moved.version, unit.now_s, found), unit)
        if current and announced is not None and announced.version != moved.version:
            kept = unit.tx.version(announced.version) or announced
            if kept.rollout.stage is Stage.CURRENT:
                self.move(kept, Overtaken(moved.version, unit.now_s), unit)

    def _without_state(self, record: VersionRecord, unit: UnitOfWork) -> VersionRecord:
        """Drop the optimizer state of a version that is no longer trained from, unless another version shares it."""
        state = record.optimizer_state
        if state is not None and all(
            other is None or other.version == record.version or other.optimizer_state != state
            for other in (
                *unit.snapshot.versions.values(),
                *unit.snapshot.training.values(),
                unit.tx.canary_version(record.task),
            )
        ):
            unit.tx.drop_state(state)
        return replace(record, optimizer_state=None)


def found_by_keyboards(record: VersionRecord, announced: VersionRecord, unit: UnitOfWork) -> KeyboardVerdict:
    """What keyboards found of a version, compared with the announced one."""
    minimum = minimum_of(record.task, unit)
    return verdict(unit.tx.federated(record.version), record.version, announced.version, minimum)


def minimum_of(task: str, unit: UnitOfWork) -> int:
    """Fewest reports of a round of a task, which may be over."""
    record = unit.snapshot.tasks.get(task) or unit.tx.task(task)
    return LEAST_DEVICES if record is None else record.settings.minimum
