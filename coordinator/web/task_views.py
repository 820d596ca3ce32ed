"""Views of tasks for people: in the API, on the pages, on the command line."""

from __future__ import annotations

from typing import Any

from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.web import documents as docs
from nightjar.coordinator.web.rows import open_round_of, round_row, why_not_active
from nightjar.wire.messages import Work

ROUNDS_SHOWN = 20


def task_rows(view: DatabaseView, first: str) -> list[docs.TaskRow]:
    """The views of all tasks; ``first`` is the name of the configuration's task."""
    rounds = {state.task: state for state in view.open_rounds()}
    return [docs.TaskRow(**_fields(view, record, rounds.get(record.name), first)) for record in view.tasks()]


def task_row(view: DatabaseView, record: TaskRecord, first: str) -> docs.TaskRow:
    """The view of one task; ``first`` is the name of the configuration's task."""
    return docs.TaskRow(**_fields(view, record, open_round_of(view, record), first))


def task_detail(view: DatabaseView, name: str, first: str, now_s: float) -> docs.TaskDetail | None:
    """One task with its settings and newest rounds; None if there is none of this name."""
    record = view.task(name)
    if record is None:
        return None
    newest = view.recent_rounds(ROUNDS_SHOWN, task=name)[::-1]
    made = view.versions_made_in(newest)
    rows = [round_row(each, made.get(each.version or 0), now_s) for each in newest]
    fields = _fields(view, record, open_round_of(view, record), first)
    return docs.TaskDetail(**fields, settings=record.settings, rounds=rows, ledger=record.ledger())


def _fields(view: DatabaseView, record: TaskRecord, current: Round | None, first: str) -> dict[str, Any]:
    state, settings = record.state, record.settings
    waits = why_not_active(record) or (current.explain() if current is not None else "waits for its hours or its pause")
    return {
        "name": state.name,
        "number": state.number,
        "kind": settings.kind.value,
        "status": state.status.value,
        "reason": waits,
        "created_s": state.created_s,
        "since_s": state.since_s,
        "committed": state.committed,
        "rounds_wanted": settings.rounds,
        "best_top1": state.best_top1,
        "without_gain": state.without_gain,
        "version": _version(view, record, first),
        "round": None if current is None else current.number,
        "phase": "" if current is None else current.phase.value,
        "experiment": settings.variant.experiment,
        "share": settings.variant.share,
    }


def _version(view: DatabaseView, record: TaskRecord, first: str) -> int | None:
    source = record.settings.source
    if record.settings.kind is Work.EVALUATE and source.version is not None:
        return source.version
    of = record.name if record.settings.kind is Work.TRAIN else source.task or first
    newest = view.current_version(of)
    return None if newest is None else newest.version
