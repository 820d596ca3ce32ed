"""Hands the open seats and early reports of an ended buffered round over to the next one, in the same transaction.

The next round of a task is usually the next buffer. If it is the trial of a canary, or opens later, the early reports
of the ended round wait (:attr:`nightjar.coordinator.tasks.task.Task.waiting`); its other devices are answered LATE.
What was trained from a version that was rolled back meanwhile is not handed over: its reports stay unused.
"""

from __future__ import annotations

from msgspec.structs import replace

from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.rounds import buffer
from nightjar.coordinator.rounds.kinds import kind_of
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.task import OVER
from nightjar.coordinator.versions.rollout import Stage


def keep_early_reports(ended: Round, unit: UnitOfWork) -> None:
    """Let the early reports of a buffer that has ended wait for a later one; otherwise delete its frames."""
    early, following = ended.devices(SeatState.EARLY), unit.snapshot.rounds.get(ended.task)
    if early and (following is None or not kind_of(following).is_buffer):
        record = unit.snapshot.tasks.get(ended.task)
        if record is not None:
            save_task(replace(record, state=replace(record.state, waiting=ended.number)), unit)
            return
        _count_unused(ended, unit)
    unit.tx.drop_frames(ended.number)


def transfer_seats(record: TaskRecord, ended: Round | None, opened: Round, unit: UnitOfWork) -> None:
    """Hand the open seats of the round that has just ended to the next, or the early reports of an older one.

    ``opened``, the next round, is a buffered one that is already saved.
    """
    just_ended = ended is not None and kind_of(ended).is_buffer
    source = ended if just_ended else unit.tx.round(record.state.waiting) if record.state.waiting else None
    if source is None:
        return
    bases = {seat.given.version for seat in source.seats.values() if seat.given is not None}
    withdrawn = {base for base in bases if _was_rolled_back(base, unit)}
    before, after, devices = buffer.carry(source, opened, only_early=not just_ended, withdrawn=withdrawn)
    if before.devices(SeatState.EARLY):
        _count_unused(before, unit)
    unit.tx.carry_reports(before.number, after.number, devices)
    unit.tx.save_round(before)
    unit.save_round(after)
    if record.state.waiting:
        unit.tx.drop_frames(record.state.waiting)
        unit.save_task(replace(record, state=replace(record.state, waiting=0)))


def _was_rolled_back(version: int, unit: UnitOfWork) -> bool:
    record = unit.tx.version(version)
    return record is not None and record.rollout.stage is Stage.ROLLED_BACK


def save_task(record: TaskRecord, unit: UnitOfWork) -> None:
    """Save a task, without its waiting reports if it is over and has no open round."""
    over = record.state.status in OVER and record.name not in unit.snapshot.rounds
    unit.save_task(discard_waiting(record, unit) if over and record.state.waiting else record)


def discard_waiting(record: TaskRecord, unit: UnitOfWork) -> TaskRecord:
    """The task without its waiting reports, which it will not use any more."""
    ended = unit.tx.round(record.state.waiting)
    if ended is not None:
        _count_unused(ended, unit)
        unit.tx.drop_frames(ended.number)
    return replace(record, state=replace(record.state, waiting=0))


def _count_unused(ended: Round, unit: UnitOfWork) -> None:
    unused = len(ended.devices(SeatState.EARLY))
    unit.tx.count("reports_unused", unused)
    unit.log("reports_unused", round=ended.number, reports=unused)
