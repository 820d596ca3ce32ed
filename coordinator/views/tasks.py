"""Views of tasks for people: in the API, on the pages, on the command line."""

from __future__ import annotations

from typing import Any

import msgspec

from nightjar.coordinator.learning.privacy.ledger import Ledger
from nightjar.coordinator.rounds.admission import in_slot, unsuited
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.views.rows import RoundRow, open_round_of, round_row, why_not_active
from nightjar.wire.messages import Work

ROUNDS_SHOWN = 20
_LEASES_AT_ONCE = 1000


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task; ``reason`` says why it is not active and who changed that, or what its round is waiting for.

    ``version`` is the one that is announced or that it evaluates; ``rounds_wanted`` 0 means endless; ``without_gain``
    counts committed rounds since one brought a better version; ``share`` is its share of the devices of its
    ``experiment``, if it has one.
    """

    name: str
    number: int
    kind: str
    status: str
    reason: str
    created_s: float
    since_s: float
    committed: int
    rounds_wanted: int
    best_top1: float | None
    without_gain: int
    version: int | None
    round: int | None
    phase: str
    experiment: str
    share: float


class TaskDetail(TaskRow, frozen=True, kw_only=True):
    """A task with all its settings, its latest rounds, newest first, and its ledger of differential privacy, if any."""

    settings: TaskSettings
    rounds: list[RoundRow]
    ledger: Ledger | None


def task_rows(view: DatabaseView, first: str) -> list[TaskRow]:
    """The views of all tasks; ``first`` is the name of the configuration's task."""
    rounds = {state.task: state for state in view.open_rounds()}
    return [TaskRow(**_fields(view, record, rounds.get(record.name), first)) for record in view.tasks()]


def task_row(view: DatabaseView, record: TaskRecord, first: str) -> TaskRow:
    """The view of one task; ``first`` is the name of the configuration's task."""
    return TaskRow(**_fields(view, record, open_round_of(view, record), first))


def task_detail(view: DatabaseView, record: TaskRecord, first: str, now_s: float) -> TaskDetail:
    """One task with its settings and newest rounds; ``first`` is the name of the configuration's task."""
    newest = view.recent_rounds(ROUNDS_SHOWN, task=record.name)[::-1]
    made = view.versions_made_in(newest)
    rows = [round_row(each, made.get(each.version or 0), now_s) for each in newest]
    fields = _fields(view, record, open_round_of(view, record), first)
    return TaskDetail(**fields, settings=record.settings, rounds=rows, ledger=record.ledger())


def known_devices(view: DatabaseView, record: TaskRecord) -> int:
    """How many known devices may serve a task, counted up to its minimum."""
    settings, found, after = record.settings, 0, ""
    while found < settings.minimum and (leases := view.leases_after(_LEASES_AT_ONCE, after)):
        fit = (lease for lease in leases if not unsuited(lease, settings.eligibility))
        found += sum(in_slot(settings.variant, record.state.slot, lease.device) for lease in fit)
        after = leases[-1].device
    return min(found, settings.minimum)


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
