"""The task service: gives events to tasks, and opens their rounds."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from nightjar.coordinator.engine.hand_over import discard_waiting, save_task, transfer_seats
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.kinds import EarlyReports, kind_of
from nightjar.coordinator.rounds.round import Round, open_round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.schedule import wait_s
from nightjar.coordinator.tasks.task import OVER, TaskStatus
from nightjar.wire.messages import Work

HOURS_OVER = "the task's hours are over"


class TaskService:
    """Steps tasks.

    Args:
        first: name of the configuration's task.
        seed: the seed with which each round draws its devices, unless there is a ``seed_of_draw``.
        seed_of_draw: the seed with which a round draws its devices, by the round's number.
    """

    def __init__(self, first: str, seed: int, seed_of_draw: Callable[[int], int] | None = None) -> None:
        self.first = first
        self._seed, self._seed_of_draw = seed, seed_of_draw

    def step(self, name: str, event: tasks.Event, unit: UnitOfWork) -> TaskRecord:
        """Apply an event to a task.

        Raises:
            IllegalEvent: see :func:`nightjar.coordinator.tasks.task.step`.
        """
        before = unit.snapshot.tasks[name]
        record = replace(before, state=tasks.step(before.state, event))
        if record.state != before.state:
            save_task(record, unit)
            if record.state.status is TaskStatus.FINISHED and before.state.status is not TaskStatus.FINISHED:
                unit.log("task_finished", task=name, reason=record.state.reason)
            _warn_if_nothing_is_gained(before, record, unit)
        return record

    def open_next(self, name: str, unit: UnitOfWork, ended: Round | None = None) -> None:
        """Open the next round of a task if it is active and its schedule allows.

        If both are buffered, it takes over the open seats of the round that has just ended. It then opens even if it
        may not give seats, until the devices at work have ended.
        """
        record = unit.snapshot.tasks.get(name)
        closing = None if record is None else _why_closing(record, ended, unit.now_s)
        if record is None or closing is None:
            return
        state, settings = record.state, record.settings
        canary = unit.tx.canary_version(name) if settings.tries else None
        if canary is None and tasks.privacy_spent(state, settings.stop_rule()):
            self.step(name, tasks.PrivacySpent(unit.now_s, settings.stop_rule()), unit)
            return
        base = canary or self._base_of(record, unit)
        if base is None:
            return  # the version to evaluate does not exist yet
        number, trial = unit.tx.last_round_number() + 1, canary is not None
        rules = settings.rules(trial=trial)
        seed = self._seed if self._seed_of_draw is None else self._seed_of_draw(number)
        fresh = open_round(number, base.version, rules, seed, unit.now_s, state.empty, name, trial=trial)
        kind = kind_of(fresh)
        if closing and not kind.is_buffer:
            return
        opened = kind.opened(fresh, unit.now_s, closing)
        unit.save_round(opened, base)
        unit.log(
            "round_opened",
            task=name,
            round=number,
            version=base.version,
            trial=trial,
            goal=settings.goal,
            minimum=settings.minimum,
        )
        match kind.early_reports:
            case EarlyReports.TAKEN:
                transfer_seats(record, ended, opened, unit)
            case EarlyReports.DISCARDED if state.waiting:
                unit.save_task(discard_waiting(record, unit))
            case _:
                pass

    def _base_of(self, record: TaskRecord, unit: UnitOfWork) -> VersionRecord | None:
        """The base version of a task's next round; None if it does not exist, or no longer exists."""
        if record.settings.kind is Work.TRAIN:
            return unit.snapshot.head(record.name)
        source = record.settings.source
        if source.version is not None:
            return unit.tx.version(source.version)
        name = source.task or self.first
        return unit.snapshot.versions.get(name) or unit.tx.current_version(name)


def _why_closing(record: TaskRecord, ended: Round | None, now_s: float) -> str | None:
    """Why the task's next round may not give seats; empty if it may, None if there is no next round."""
    status = record.state.status
    if status is TaskStatus.ACTIVE and not wait_s(record.settings.schedule, record.state.closed_at_s, now_s):
        return ""
    left = ended is not None and kind_of(ended).is_buffer and (ended.working or ended.devices(SeatState.EARLY))
    if not left or status in OVER:
        return None
    return HOURS_OVER if status is TaskStatus.ACTIVE else f"the task is {status.value}: {record.state.reason}"


def _warn_if_nothing_is_gained(before: TaskRecord, after: TaskRecord, unit: UnitOfWork) -> None:
    """Log that a task paused itself, and before that once that it is half way there."""
    rounds, patience = after.state.without_gain, after.settings.patience
    if after.state.who == tasks.GATE and before.state.who != tasks.GATE:
        unit.warn("task_paused", task=after.name, reason=after.state.reason)
    elif rounds > before.state.without_gain and patience and rounds == -(-patience // 2):
        unit.warn("task_gains_nothing", task=after.name, rounds=rounds, pauses_after=patience)
