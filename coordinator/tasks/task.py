"""What becomes of a task: a small state machine over its rounds and over what operators say.

Theory of operation
===================

A task is ACTIVE: it opens rounds one after the other, when its schedule lets it (:mod:`coordinator.tasks.schedule`). An
operator may pause it, let it go on, or stop it for good; a round that already has devices at work goes to its end in
each case. A task ends by itself as FINISHED when its stop rule says so: as many rounds as were wanted, a recall that
was to be reached, or no better recall for so many rounds. Only a changed stop rule wakes a FINISHED task again, and
nothing a STOPPED one::

    step(task, event) -> task

A pair (status, event) that is not in TABLE raises IllegalEvent and changes nothing. What a task learns, and of whom, is
configuration (:mod:`coordinator.config`); rounds are :mod:`coordinator.rounds.round`'s business.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from coordinator.rounds.round import AbandonCause, Phase, Round
from wire.machine import Row, find_row, row, table


def _rows() -> Iterable[Row[Task]]:
    """Every legal pair. A round may end after its task: devices that had begun to train were let finish."""
    return (
        row(TaskStatus.ACTIVE, RoundCommitted, _advance, TaskStatus.ACTIVE, TaskStatus.FINISHED),
        row(TaskStatus.ACTIVE, RoundAbandoned, _note_abandoned, TaskStatus.ACTIVE),
        row(TaskStatus.ACTIVE, Paused, _pause, TaskStatus.PAUSED),
        row(TaskStatus.ACTIVE, TaskStopped, _stop, TaskStatus.STOPPED),
        row(TaskStatus.ACTIVE, RuleRead, _finish_if_enough, TaskStatus.ACTIVE, TaskStatus.FINISHED),
        row(TaskStatus.PAUSED, RoundCommitted, _advance, TaskStatus.PAUSED, TaskStatus.FINISHED),
        row(TaskStatus.PAUSED, RoundAbandoned, _note_abandoned, TaskStatus.PAUSED),
        row(TaskStatus.PAUSED, Resumed, _activate, TaskStatus.ACTIVE),
        row(TaskStatus.PAUSED, TaskStopped, _stop, TaskStatus.STOPPED),
        row(TaskStatus.PAUSED, RuleRead, _finish_if_enough, TaskStatus.PAUSED, TaskStatus.FINISHED),
        row(TaskStatus.STOPPED, RoundCommitted, _count, TaskStatus.STOPPED),
        row(TaskStatus.STOPPED, RoundAbandoned, _note_abandoned, TaskStatus.STOPPED),
        row(TaskStatus.STOPPED, RuleRead, _stay, TaskStatus.STOPPED),
        row(TaskStatus.FINISHED, RoundCommitted, _count, TaskStatus.FINISHED),
        row(TaskStatus.FINISHED, RoundAbandoned, _note_abandoned, TaskStatus.FINISHED),
        row(TaskStatus.FINISHED, RuleRead, _wake_unless_enough, TaskStatus.FINISHED, TaskStatus.ACTIVE),
    )


class TaskStatus(enum.Enum):
    """What has become of a task."""

    ACTIVE = "active"
    PAUSED = "paused"
    """An operator wants no rounds for now."""
    STOPPED = "stopped"
    """An operator wants no more rounds."""
    FINISHED = "finished"
    """It did what it was made for."""


OVER = frozenset({TaskStatus.STOPPED, TaskStatus.FINISHED})


class StopRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a task has done enough; each part that is None or 0 never ends it.

    Attributes:
        rounds: committed rounds.
        target_top1: recall on the held-out text that ends it.
        no_progress_rounds: committed rounds without a better recall that end it.
    """

    rounds: int = 0
    target_top1: float | None = None
    no_progress_rounds: int = 0


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task. Times are seconds of the coordinator's wall clock.

    Attributes:
        name: unique.
        number: tasks are counted in the order in which they were made, from 1.
        created_s: when it was made.
        slot: where its share of an experiment's devices begins, 0 to 1.
        status: what has become of it.
        reason: why it is not active, for a person.
        who: paused or stopped it; empty if nobody did.
        since_s: since when it has its status.
        committed: committed rounds.
        empty: rounds in a row, up to the last one, to which nobody came.
        closed_at_s: when its last round ended.
        best_top1: best recall of a version that it made.
        since_best: committed rounds since then.
    """

    name: str
    number: int
    created_s: float
    slot: float = 0.0
    status: TaskStatus = TaskStatus.ACTIVE
    reason: str = ""
    who: str = ""
    since_s: float = 0.0
    committed: int = 0
    empty: int = 0
    closed_at_s: float | None = None
    best_top1: float | None = None
    since_best: int = 0


# Events


@dataclass(frozen=True, slots=True)
class RoundCommitted:
    """A round of the task made a version, or figures; ``top1`` is the version's recall if it was measured."""

    now_s: float
    rule: StopRule
    top1: float | None = None


@dataclass(frozen=True, slots=True)
class RoundAbandoned:
    """A round of the task came to nothing; ``nobody`` if not one device came."""

    now_s: float
    nobody: bool


@dataclass(frozen=True, slots=True)
class Paused:
    """An operator wants no rounds for now."""

    now_s: float
    reason: str
    who: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """An operator wants rounds again."""

    now_s: float


@dataclass(frozen=True, slots=True)
class TaskStopped:
    """An operator wants no more rounds."""

    now_s: float
    reason: str
    who: str


@dataclass(frozen=True, slots=True)
class RuleRead:
    """The service starts and reads the stop rule again, which somebody may have changed."""

    now_s: float
    rule: StopRule


Event = RoundCommitted | RoundAbandoned | Paused | Resumed | TaskStopped | RuleRead


def step(task: Task, event: Event) -> Task:
    """The task after an event.

    >>> task = Task(name="keyboard", number=1, created_s=0.0)
    >>> ended = step(task, RoundCommitted(9.0, StopRule(rounds=1)))
    >>> ended.status, ended.reason
    (<TaskStatus.FINISHED: 'finished'>, 'it has its 1 committed rounds')

    Raises:
        IllegalEvent: the table has no row for this event in this status.
    """
    found = find_row(TABLE, task.status, type(event), lambda: f"task {task.name}, {task.status.value}")
    return found.handle(task, event)


def enough(task: Task, rule: StopRule) -> str:
    """Why a task has done enough; empty if it has not."""
    if rule.rounds and task.committed >= rule.rounds:
        return f"it has its {rule.rounds} committed rounds"
    best = task.best_top1
    if rule.target_top1 is not None and best is not None and best >= rule.target_top1:
        return f"it reached a recall of {best:.4f}, and {rule.target_top1:g} was wanted"
    if rule.no_progress_rounds and task.since_best >= rule.no_progress_rounds:
        return f"its recall did not grow for {task.since_best} rounds"
    return ""


def _count(task: Task, event: RoundCommitted) -> Task:
    counted = replace(task, committed=task.committed + 1, empty=0, closed_at_s=event.now_s)
    if event.top1 is None:
        return counted
    if task.best_top1 is None or event.top1 > task.best_top1:
        return replace(counted, best_top1=event.top1, since_best=0)
    return replace(counted, since_best=task.since_best + 1)


def _advance(task: Task, event: RoundCommitted) -> Task:
    return _finish_if_enough(_count(task, event), event)


def _finish_if_enough(task: Task, event: RoundCommitted | RuleRead) -> Task:
    why = enough(task, event.rule)
    return replace(task, status=TaskStatus.FINISHED, reason=why, who="", since_s=event.now_s) if why else task


def _note_abandoned(task: Task, event: RoundAbandoned) -> Task:
    return replace(task, empty=task.empty + 1 if event.nobody else 0, closed_at_s=event.now_s)


def _pause(task: Task, event: Paused) -> Task:
    return replace(task, status=TaskStatus.PAUSED, reason=event.reason, who=event.who, since_s=event.now_s)


def _stop(task: Task, event: TaskStopped) -> Task:
    return replace(task, status=TaskStatus.STOPPED, reason=event.reason, who=event.who, since_s=event.now_s)


def _activate(task: Task, event: Resumed | RuleRead) -> Task:
    # The operator does not want to wait out the rest of a pause between rounds, nor a doubled selection.
    return replace(task, status=TaskStatus.ACTIVE, reason="", who="", since_s=event.now_s, closed_at_s=None, empty=0)


def _wake_unless_enough(task: Task, event: RuleRead) -> Task:
    why = enough(task, event.rule)
    return replace(task, reason=why) if why else _activate(task, event)


def _stay(task: Task, _event: RuleRead) -> Task:
    return task


def event_of(
    ended: Round, now_s: float, rule: StopRule, top1: float | None, *, on_trial: bool, decided: bool
) -> Event | None:
    """What a round that is over means for its task; None if nothing.

    A version that is tried first counts when that is decided, or the task might end before.

    Args:
        ended: the round.
        now_s: now.
        rule: when the task has done enough.
        top1: recall of the version that devices have after it; None if nobody measured it.
        on_trial: whether a version of the task was a canary when the round ended.
        decided: whether it is none any more.
    """
    if decided or (ended.phase is Phase.COMMITTED and not on_trial):
        return RoundCommitted(now_s, rule, top1)
    if ended.phase is Phase.ABANDONED:
        return RoundAbandoned(now_s, nobody=ended.cause is AbandonCause.NOBODY_CAME)
    return None


TABLE = table(_rows())
