"""The status of a task: a small state machine driven by its rounds and by operators.

Theory of operation
===================

An ACTIVE task opens rounds one after the other, when its schedule allows (:mod:`nightjar.coordinator.tasks.schedule`).
An operator may pause it, resume it, or stop it for good; a round whose devices are already training runs to its end in
each case. A task becomes FINISHED when its stop rule applies: it has committed the wanted number of rounds, reached the
target figure, or made no progress for a number of rounds; or when its privacy is spent. Only a changed stop rule makes
a FINISHED task active again; a STOPPED task stays stopped. A task whose rounds gain nothing pauses itself after
``patience`` of them, and says why: phones must not work for nothing until somebody looks::

    step(task, event) -> task

A pair (status, event) that is not in TABLE raises IllegalEvent and changes nothing. What a task trains, and on which
devices, is configuration (:mod:`nightjar.coordinator.config`); :mod:`nightjar.coordinator.rounds.synchronous` is the
state machine of a round.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.coordinator.rounds.round import AbandonCause, Phase, Round
from nightjar.coordinator.tasks.schedule import StopRule
from nightjar.wire.machine import Row, find_row, row, table


def _rows() -> Iterable[Row[Task]]:
    """The legal (status, event) pairs. A round may end after its task, because devices that are training may finish."""
    return (
        row(
            TaskStatus.ACTIVE,
            RoundCommitted,
            _advance_or_pause,
            TaskStatus.ACTIVE,
            TaskStatus.PAUSED,
            TaskStatus.FINISHED,
        ),
        row(TaskStatus.ACTIVE, RoundAbandoned, _note_abandoned, TaskStatus.ACTIVE),
        row(TaskStatus.ACTIVE, Paused, _pause, TaskStatus.PAUSED),
        row(TaskStatus.ACTIVE, TaskStopped, _stop, TaskStatus.STOPPED),
        row(TaskStatus.ACTIVE, RuleRead, _finish_if_enough, TaskStatus.ACTIVE, TaskStatus.FINISHED),
        row(TaskStatus.ACTIVE, PrivacySpent, _finish_spent, TaskStatus.FINISHED),
        row(TaskStatus.ACTIVE, Restored, _finish_restored, TaskStatus.FINISHED),
        row(TaskStatus.PAUSED, Restored, _finish_restored, TaskStatus.FINISHED),
        row(TaskStatus.STOPPED, Restored, _stay, TaskStatus.STOPPED),
        row(TaskStatus.FINISHED, Restored, _stay, TaskStatus.FINISHED),
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
    """The status of a task."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Opens no rounds for now, by an operator, because of ``[limits]``, or because its rounds gain nothing."""
    STOPPED = "stopped"
    """Ended by an operator."""
    FINISHED = "finished"
    """Ended by its stop rule."""


SPENT_BY_RESTORING = (
    "restored from a backup: which rounds were noised after it is unknown, so its whole epsilon counts as spent; go on "
    "with a task of another name, which starts from its last version"
)
"""Why a task with differential privacy is over."""

OVER = frozenset({TaskStatus.STOPPED, TaskStatus.FINISHED})


GATE = "gate"
"""Who paused a task whose rounds gain nothing."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task. Times are seconds of the coordinator's wall clock.

    Attributes:
        number: sequence number in order of creation, from 1.
        slot: start of its share of an experiment's devices, 0 to 1.
        reason: why the task is not active, in words.
        who: the operator who paused or stopped the task, ``limits`` or ``gate``; empty if it was neither paused nor
            stopped.
        since_s: when the task got its status.
        committed: number of committed rounds.
        empty: number of consecutive rounds, up to the last, in which no device checked in.
        closed_at_s: when its last round ended.
        best_top1: best top-1 share of a version of the task.
        since_best: number of committed rounds since the best one.
        announced: the version that was announced after the last round whose devices measured versions; else None.
        without_gain: number of committed rounds since a version was announced, or where devices do not measure since
            the best one; counted anew when the task is resumed.
        noise: how its sums are noised; None without differential privacy.
        noised: numbers of the rounds that spent privacy: whose noised version was made, or whose noised secure sum
            could be opened, whatever became of it.
        waiting: the ended buffered round whose early reports count in the task's next buffer; 0 if there is none.
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
    announced: int | None = None
    without_gain: int = 0
    noise: NoiseTerms | None = None
    noised: tuple[int, ...] = ()
    waiting: int = 0


# Events


@dataclass(frozen=True, slots=True)
class RoundCommitted:
    """A round of the task committed a version or on-device metrics.

    Attributes:
        top1: the version's share on the held-out text, if it was measured.
        announced: the version that is announced, if devices measure versions.
        figures: how the versions compare of which the better one is announced, in words.
    """

    now_s: float
    rule: StopRule
    top1: float | None = None
    announced: int | None = None
    figures: str = ""


@dataclass(frozen=True, slots=True)
class RoundAbandoned:
    """A round of the task was abandoned; ``nobody`` is True if no device checked in."""

    now_s: float
    nobody: bool


@dataclass(frozen=True, slots=True)
class Paused:
    """An operator paused the task, or it exceeds ``[limits]``."""

    now_s: float
    reason: str
    who: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """An operator resumed the task."""

    now_s: float


@dataclass(frozen=True, slots=True)
class TaskStopped:
    """An operator stopped the task for good."""

    now_s: float
    reason: str
    who: str


@dataclass(frozen=True, slots=True)
class RuleRead:
    """The service started and read the stop rule again, which may have changed."""

    now_s: float
    rule: StopRule


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """No further round may be noised (:func:`privacy_spent`), though not each noised one became a version."""

    now_s: float
    rule: StopRule


@dataclass(frozen=True, slots=True)
class Restored:
    """A task with differential privacy came from a backup: what it has spent since is unknown.

    Attributes:
        rounds: how many rounds of the task may be noised in all.
        number: the last round number that counts as used.
    """

    now_s: float
    rounds: int
    number: int


Event = RoundCommitted | RoundAbandoned | Paused | Resumed | TaskStopped | RuleRead | PrivacySpent | Restored


def step(task: Task, event: Event) -> Task:
    """The task after an event.

    >>> task = Task(name="keyboard", number=1, created_s=0.0)
    >>> ended = step(task, RoundCommitted(9.0, StopRule(rounds=1)))
    >>> ended.status, ended.reason
    (<TaskStatus.FINISHED: 'finished'>, '1 of 1 rounds is committed')

    Raises:
        IllegalEvent: the table has no row for this event in this status.
    """
    transition = find_row(TABLE, task.status, type(event), lambda: f"task {task.name}, {task.status.value}")
    return transition.handle(task, event)


def enough(task: Task, rule: StopRule) -> str:
    """Why the stop rule ends a task; empty if it does not."""
    if rule.rounds and task.committed >= rule.rounds:
        return f"{task.committed} of {rule.rounds} rounds {'is' if rule.rounds == 1 else 'are'} committed"
    best = task.best_top1
    if rule.target_top1 is not None and best is not None and best >= rule.target_top1:
        return f"its top-1 share reached {best:.4f}, and {rule.target_top1:g} was wanted"
    if rule.no_progress_rounds and task.since_best >= rule.no_progress_rounds:
        return f"its top-1 share did not grow for {task.since_best} rounds"
    return ""


def privacy_spent(task: Task, rule: StopRule) -> str:
    """Why a task with differential privacy may not noise another round; empty if it may."""
    spent = task.noise is not None and len(task.noised) >= rule.rounds
    return f"its privacy is spent: {len(task.noised)} of {rule.rounds} rounds" if spent else ""


def without_best(task: Task) -> Task:
    """The task when its held-out text has changed: shares on another text are nothing to compare with.

    A task that is over stays so, whatever it reached.
    """
    return task if task.status in OVER else replace(task, best_top1=None, since_best=0)


def _count(task: Task, event: RoundCommitted) -> Task:
    counted = replace(task, committed=task.committed + 1, empty=0, closed_at_s=event.now_s)
    gained = None
    if event.announced is not None:
        gained = event.announced != task.announced
        counted = replace(counted, announced=event.announced)
    if event.top1 is not None:
        best = task.best_top1 is None or event.top1 > task.best_top1
        since_best = 0 if best else task.since_best + 1
        counted = replace(counted, best_top1=event.top1 if best else task.best_top1, since_best=since_best)
        gained = best if gained is None else gained
    if gained is None:
        return counted  # nobody measured what the round gained
    return replace(counted, without_gain=0 if gained else task.without_gain + 1)


def _advance(task: Task, event: RoundCommitted) -> Task:
    return _finish_if_enough(_count(task, event), event)


def _advance_or_pause(task: Task, event: RoundCommitted) -> Task:
    counted = _advance(task, event)
    if counted.status is not TaskStatus.ACTIVE or not 0 < event.rule.patience <= counted.without_gain:
        return counted
    return _pause(counted, Paused(event.now_s, gains_nothing(counted, event), GATE))


def gains_nothing(task: Task, event: RoundCommitted) -> str:
    """Why a task is paused whose last rounds gained nothing."""
    if event.announced is not None:
        said = f"no version was announced in the last {task.without_gain} rounds"
    else:
        said = f"no version was the best on the held-out text in the last {task.without_gain} rounds"
    return f"{said}: {event.figures}" if event.figures else said


def _finish_if_enough(task: Task, event: RoundCommitted | RuleRead) -> Task:
    why = enough(task, event.rule)
    return replace(task, status=TaskStatus.FINISHED, reason=why, who="", since_s=event.now_s) if why else task


def _finish_spent(task: Task, event: PrivacySpent) -> Task:
    why = privacy_spent(task, event.rule)
    return replace(task, status=TaskStatus.FINISHED, reason=why, who="", since_s=event.now_s)


def _finish_restored(task: Task, event: Restored) -> Task:
    ended = replace(task, status=TaskStatus.FINISHED, reason=SPENT_BY_RESTORING, who="", since_s=event.now_s)
    return replace(ended, noised=(*task.noised, *[event.number] * (event.rounds - len(task.noised))))


def _note_abandoned(task: Task, event: RoundAbandoned) -> Task:
    return replace(task, empty=task.empty + 1 if event.nobody else 0, closed_at_s=event.now_s)


def _pause(task: Task, event: Paused) -> Task:
    return replace(task, status=TaskStatus.PAUSED, reason=event.reason, who=event.who, since_s=event.now_s)


def _stop(task: Task, event: TaskStopped) -> Task:
    return replace(task, status=TaskStatus.STOPPED, reason=event.reason, who=event.who, since_s=event.now_s)


def _activate(task: Task, event: Resumed | RuleRead) -> Task:
    # The task must not wait for the rest of the pause between rounds, nor for a doubled selection.
    return replace(
        task,
        status=TaskStatus.ACTIVE,
        reason="",
        who="",
        since_s=event.now_s,
        closed_at_s=None,
        empty=0,
        without_gain=0,
    )


def _wake_unless_enough(task: Task, event: RuleRead) -> Task:
    if task.reason == SPENT_BY_RESTORING:
        return task
    why = enough(task, event.rule) or privacy_spent(task, event.rule)
    return replace(task, reason=why) if why else _activate(task, event)


def _stay(task: Task, _event: RuleRead | Restored) -> Task:
    return task


def event_of(ended: Round, committed: RoundCommitted, *, on_trial: bool, decided: bool) -> Event | None:
    """The event that the end of a round is for its task; None if there is none.

    A canary counts only when its trial has been decided; otherwise the task could end during the trial.

    ``committed`` is the event if the round counts. ``on_trial`` tells whether a version of the task was a canary when
    the round ended, and ``decided`` whether the end decided its trial.
    """
    if decided or (ended.phase is Phase.COMMITTED and not on_trial):
        return committed
    if ended.phase is Phase.ABANDONED:
        return RoundAbandoned(committed.now_s, nobody=ended.cause is AbandonCause.NOBODY_CAME)
    return None


TABLE = table(_rows())
