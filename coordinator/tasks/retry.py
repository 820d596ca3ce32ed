"""Decides for which task a device that is not needed now should check in again, and when. Pure.

A device waits for the task that rejected it if that task is active, and otherwise for the first active task to open.
:mod:`nightjar.coordinator.rounds.pace_steering` spreads the devices that wait for one task.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nightjar.coordinator.rounds import pace_steering
from nightjar.coordinator.rounds.kinds import kind_of
from nightjar.coordinator.rounds.pace_steering import Rhythm, Steering, check_in_within_s, loads
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.schedule import wait_s
from nightjar.coordinator.tasks.settings import Mode, TaskSettings
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire.messages import RejectionReason

REFUSED_RETRY_S = 900.0
"""A device that lacks examples, a plug-in or a newer agent is unlikely to have it sooner (Android also retries after 15
minutes)."""
_NOT_SOON = frozenset(
    {
        RejectionReason.OUTDATED_AGENT,
        RejectionReason.NO_PLUGIN,
        RejectionReason.BAD_EXAMPLES,
        RejectionReason.TOO_FEW_EXAMPLES,
        RejectionReason.BLOCKED,
    }
)
NO_TASK_RETRY_S = 3600.0
"""Retry time when all tasks are over: a new task is hours away at best. A paused task may resume at any moment."""

Tasks = Mapping[str, TaskRecord]
"""The tasks by name."""
OpenRounds = Mapping[str, Round]
"""The open round of each task that has one."""


def steering_of(settings: TaskSettings, population: int, rhythm: Rhythm, now_s: float) -> Steering:
    """The parameters of pace steering for a task; ``population`` is the number of devices seen lately."""
    return Steering(
        population=round(settings.variant.share * population) if settings.variant.experiment else population,
        cohort=settings.rules().cohort,
        selection_deadline_s=_arrival_span_s(settings, rhythm.usual_round_s),
        shortest_s=settings.shortest_retry_s,
        loads=loads(rhythm, now_s),
        usual_round_s=rhythm.usual_round_s,
    )


def _arrival_span_s(settings: TaskSettings, usual_round_s: float) -> float:
    """Time within which a cohort should arrive.

    In buffered rounds that is how long a seat is usually taken: with concurrency M and goal K, M / K rounds.
    """
    if settings.mode is Mode.SYNCHRONOUS or not usual_round_s:
        return settings.selection_deadline_s
    return min(settings.selection_deadline_s, usual_round_s * settings.rules().cohort / settings.goal)


def retry_after_s(
    tasks: Tasks,
    rounds: OpenRounds,
    steering: Mapping[str, Steering],
    now_s: float,
    generator: np.random.Generator,
    *,
    task: str = "",
    reason: RejectionReason | None = None,
    rounds_later: int = 0,
) -> float:
    """Seconds until a device should check in again.

    ``task`` is the one that rejected the device, for ``reason``; it has to let ``rounds_later`` more rounds of it pass.
    ``steering`` has the parameters of each active task.
    """
    active = [record for record in tasks.values() if record.state.status is TaskStatus.ACTIVE]
    if not active:
        paused = any(record.state.status is TaskStatus.PAUSED for record in tasks.values())
        return REFUSED_RETRY_S if paused else NO_TASK_RETRY_S
    named = [record for record in active if record.name == task]
    expected_s = {
        record.name: _opens_in_s(
            record, rounds.get(record.name), steering[record.name], rounds_later, now_s, rejected=reason is not None
        )
        for record in named or active
    }
    first = min(expected_s, key=expected_s.__getitem__)
    not_soon = reason in _NOT_SOON or (named and reason is RejectionReason.NO_TASK and task in rounds)
    opens_in_s = max(expected_s[first], REFUSED_RETRY_S) if not_soon else expected_s[first]
    return pace_steering.retry_after_s(steering[first], opens_in_s, now_s, generator)


def _opens_in_s(
    record: TaskRecord,
    current: Round | None,
    steering: Steering,
    rounds_later: int,
    now_s: float,
    *,
    rejected: bool,
) -> float:
    """Expected seconds until the task's next selection with room for the device."""
    schedule, usual_s = record.settings.schedule, steering.usual_round_s
    if current is None:
        return wait_s(schedule, record.state.closed_at_s, now_s)
    # Who has reported waits for the next round.
    free_seat = rejected and not rounds_later and kind_of(current).has_free_seat(current)
    expected_s, selecting = 0.0, current.phase is Phase.SELECTION or free_seat
    if not selecting and current.started_at_s is not None:
        longest_s = current.rules.report_deadline_s
        expected_s = pace_steering.opens_in_s(current.started_at_s, current.deadline_s, longest_s, usual_s, now_s)
        expected_s += wait_s(schedule, now_s + expected_s, now_s + expected_s)
    if rounds_later:
        expected_s += (rounds_later - (not selecting)) * usual_s
    return expected_s


def recall(tasks: Tasks, rounds: OpenRounds, steering: Mapping[str, Steering]) -> int:
    """When the newest active task became active, in milliseconds, if it has a round that needs all devices; else 0.

    It tells one recall of the devices that were sent away from another.
    """
    active = [record for record in tasks.values() if record.state.status is TaskStatus.ACTIVE]
    newest = max(active, key=lambda record: record.state.since_s, default=None)
    if newest is None or newest.name not in rounds or check_in_within_s(steering[newest.name]) is None:
        return 0
    return int(newest.state.since_s * 1000)
