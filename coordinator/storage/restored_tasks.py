"""Ends a private task and its open round in a database that was put back: what was noised since is unknown."""

from __future__ import annotations

from msgspec.structs import replace

from nightjar.coordinator.ports import Transaction
from nightjar.coordinator.rounds.round import AbandonCause, abandoned
from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.record import TaskRecord

REASON = (
    "restored from a backup: how often its task was noised since is unknown, so devices refuse what it asked, and its "
    "reports are deleted unread"
)


def end_restored(tx: Transaction, record: TaskRecord, number: int, now_s: float) -> None:
    """Count all rounds of a task as noised, the unknown ones under ``number``, and abandon its open round."""
    noise = record.state.noise
    if noise is None:
        return
    ended = tasks.step(record.state, tasks.Restored(now_s, record.settings.rounds, number))
    tx.save_task(replace(record, state=replace(ended, noise=noise.without_secrets())))
    for state in [each for each in tx.open_rounds() if each.task == record.name]:
        tx.save_round(abandoned(state, AbandonCause.RESTORED, REASON, now_s))
        tx.drop_sum(state.number)
        tx.drop_chunks(state.number)
        tx.drop_frames(state.number)
