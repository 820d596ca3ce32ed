"""The agent's lifecycle as a state machine: when to check in, train, report and rest.

Theory of operation
===================

``step(state, event) -> (state, effects)`` looks up the pair of types in :data:`TABLE`; the row is a small function that
returns the next state and the effects. A missing row means an illegal event: ``step`` raises :class:`IllegalEvent`, and
the caller keeps its state. Nothing here reads a clock or draws a random number: every event carries its
:class:`Moment`.

The usual cycle is::

    INELIGIBLE -> SETTLING -> CHECKED_IN -> PREPARING -> TRAINING -> REPORTING -> RESTING -> (by conditions)

- :class:`ConditionsJudged` comes at every poll. It also serves as the clock: every wait ends at such an event.
- If conditions are lost while checked in, preparing or training, the work is stopped, the coordinator is told why if it
  had selected us, and the device becomes INELIGIBLE. While REPORTING they no longer matter: the work is done and the
  update is small.
- If conditions are lost while training, the plan allows a shorter training, and there is still time before the
  deadline, the device becomes FINISHING: the training ends within one batch, and the result so far is reported if it is
  enough. On a metered network nothing is reported, so the work is stopped at once.
- An assignment is accepted in CHECKED_IN only. A repetition of the current or the just settled assignment is ignored;
  any other is answered with a dropout, so that the coordinator need not wait for its deadline.
- Messages may come at any time, so :class:`Assigned` and :class:`Rejected` have a row in every state. Results of our
  own work (:class:`Prepared`, :class:`Trained`, :class:`WorkFailed`, :class:`ReportSettled`) are illegal if no such
  work is in progress: the driver drops the results of stopped work before they get here.
- :mod:`nightjar.edge_agent.core.outbox` handles the report itself, its resends and its receipt.

After a process restart the driver loads the last state and sends :class:`Restarted`: a round in progress is abandoned
with cause RESTARTED, and a report in the outbox is kept. If a session is cut off like this several times in a row, the
session itself must be killing the process, and the device rests for hours instead of trying again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

import msgspec
from msgspec.structs import replace

from nightjar.edge_agent.core.eligibility import EligibilityRun
from nightjar.edge_agent.core.events import (
    Announced,
    Assigned,
    ConditionsJudged,
    Connected,
    Effect,
    Event,
    Moment,
    Prepare,
    Prepared,
    Rejected,
    ReportSettled,
    Restarted,
    SendCheckIn,
    SendDropout,
    Stopping,
    StopWork,
    Train,
    Trained,
    WorkFailed,
)
from nightjar.wire.backoff import BackOff
from nightjar.wire.crash_loop import CRASHES_ALLOWED
from nightjar.wire.machine import Row, find_row, row, table
from nightjar.wire.messages import Assignment, DropoutCause, RejectionReason


def _rows() -> Iterable[Row[Result]]:
    """All legal pairs of state and event; any other pair raises IllegalEvent."""
    return (
        row(Ineligible, ConditionsJudged, _follow_conditions, Ineligible, Settling, CheckedIn),
        row(Ineligible, Connected, _stay, Ineligible),
        row(Ineligible, Announced, _stay, Ineligible),
        row(Ineligible, Assigned, _refuse, Ineligible),
        row(Ineligible, Rejected, _stay, Ineligible),
        row(Ineligible, Restarted, _begin_anew, Ineligible),
        row(Ineligible, Stopping, _stop, Ineligible),
        row(Settling, ConditionsJudged, _follow_conditions, Ineligible, Settling, CheckedIn),
        row(Settling, Connected, _stay, Settling),
        row(Settling, Announced, _stay, Settling),
        row(Settling, Assigned, _refuse, Settling),
        row(Settling, Rejected, _stay, Settling),
        row(Settling, Restarted, _begin_anew, Ineligible),
        row(Settling, Stopping, _stop, Ineligible),
        row(CheckedIn, ConditionsJudged, _wait_for_answer, CheckedIn, Ineligible),
        row(CheckedIn, Connected, _check_in_again, CheckedIn),
        row(CheckedIn, Announced, _check_in_soon, CheckedIn),
        row(CheckedIn, Assigned, _accept, Preparing),
        row(CheckedIn, Rejected, _rest_after_rejection, Resting),
        row(CheckedIn, Restarted, _begin_anew, Ineligible),
        row(CheckedIn, Stopping, _stop, Ineligible),
        row(Preparing, ConditionsJudged, _watch_work, Preparing, Ineligible, Resting),
        row(Preparing, Connected, _stay, Preparing),
        row(Preparing, Announced, _stay, Preparing),
        row(Preparing, Assigned, _refuse, Preparing),
        row(Preparing, Rejected, _stay, Preparing),
        row(Preparing, Prepared, _train, Training),
        row(Preparing, WorkFailed, _fail, Resting),
        row(Preparing, Restarted, _say_restarted, Ineligible, Resting),
        row(Preparing, Stopping, _stop_work, Ineligible),
        row(Training, ConditionsJudged, _watch_training, Training, Finishing, Ineligible, Resting),
        row(Training, Connected, _stay, Training),
        row(Training, Announced, _stay, Training),
        row(Training, Assigned, _refuse, Training),
        row(Training, Rejected, _stay, Training),
        row(Training, Trained, _report, Reporting),
        row(Training, WorkFailed, _fail, Resting),
        row(Training, Restarted, _say_restarted, Ineligible, Resting),
        row(Training, Stopping, _stop_work, Ineligible),
        row(Finishing, ConditionsJudged, _finish, Finishing, Ineligible),
        row(Finishing, Connected, _stay, Finishing),
        row(Finishing, Announced, _stay, Finishing),
        row(Finishing, Assigned, _refuse, Finishing),
        row(Finishing, Rejected, _stay, Finishing),
        row(Finishing, Trained, _report, Reporting),
        row(Finishing, WorkFailed, _end_without, Ineligible),
        row(Finishing, Restarted, _say_restarted, Ineligible, Resting),
        row(Finishing, Stopping, _stop_work, Ineligible),
        row(Reporting, ConditionsJudged, _stay, Reporting),
        row(Reporting, Connected, _stay, Reporting),
        row(Reporting, Announced, _stay, Reporting),
        row(Reporting, Assigned, _refuse, Reporting),
        row(Reporting, Rejected, _stay, Reporting),
        row(Reporting, ReportSettled, _rest_after_receipt, Resting),
        row(Reporting, Restarted, _stay, Reporting),
        row(Reporting, Stopping, _stay, Reporting),
        row(Resting, ConditionsJudged, _rest, Resting, Ineligible, Settling, CheckedIn),
        row(Resting, Connected, _stay, Resting),
        row(Resting, Announced, _come_sooner, Resting),
        row(Resting, Assigned, _refuse, Resting),
        row(Resting, Rejected, _stay, Resting),
        row(Resting, Restarted, _begin_anew, Ineligible),
        row(Resting, Stopping, _stop, Ineligible),
    )


CHECK_IN_AGAIN = BackOff(first_s=20.0, most_s=300.0)
"""Back-off for repeated check-ins. It is normal to get no answer until a cohort is full, but the coordinator may also
have lost its pool."""
NUDGE_SPREAD_S = 2.0
"""When all devices learn at once that the coordinator is back, their check-ins are spread over this time, unless the
announcement gives a time that fits the population."""
FINISH_S = 60.0
"""Longest time that a slow board needs for its last batch and for encoding the update."""
REST_AFTER_DEATHS_S = 6 * 3600.0
"""Rest after repeated deaths: the session kills the process, perhaps for lack of memory; the next model may differ."""
REST_AFTER_REFUSAL_S = 3600.0
"""Rest after an order outside our limits: the next order is unlikely to differ soon."""
SHORTEST_REST_S = 1.0
"""Shortest rest: with a retry window of zero, check-ins and rejections would loop as fast as the network allows."""


# --- states ---------------------------------------------------------------------------------------------------------


class Ineligible(msgspec.Struct, frozen=True, tag="ineligible"):
    """A condition does not hold."""

    reason: str
    cause: DropoutCause


class Settling(msgspec.Struct, frozen=True, tag="settling"):
    """Eligible, but not for long enough; ``cause`` is why the device was ineligible before."""

    reason: str
    cause: DropoutCause


class CheckedIn(msgspec.Struct, frozen=True, tag="checked-in"):
    """We have checked in ``tries`` times without an answer; the next check-in is at ``again_at_s``."""

    tries: int
    again_at_s: float


class Preparing(msgspec.Struct, frozen=True, tag="preparing"):
    """Selected; fetching the missing parts of the model."""

    assignment: Assignment
    deadline_s: float


class Training(msgspec.Struct, frozen=True, tag="training"):
    """Selected; training, then encoding."""

    assignment: Assignment
    deadline_s: float


class Finishing(msgspec.Struct, frozen=True, tag="finishing"):
    """Conditions were lost while training; waiting until ``until_s`` for the shortened training's result."""

    assignment: Assignment
    until_s: float
    cause: DropoutCause
    why: str


class Reporting(msgspec.Struct, frozen=True, tag="reporting"):
    """The report is in the outbox and has no receipt yet."""

    round: int
    attempt: int


class Resting(msgspec.Struct, frozen=True, tag="resting"):
    """Waiting for a retry window; ``round`` and ``attempt`` identify the report just settled (0 for none).

    ``unwanted``: no task wanted the device, so a task that is created or resumed ends the rest.
    """

    until_s: float
    reason: str
    round: int = 0
    attempt: int = 0
    unwanted: bool = False


Working = Preparing | Training | Finishing
"""The states with a session in progress."""
State = Ineligible | Settling | CheckedIn | Preparing | Training | Finishing | Reporting | Resting

STARTING = Ineligible("just started", DropoutCause.RESTARTED)
"""The state of a device that has not judged its conditions yet."""


def name(state: State) -> str:
    """The state's name on the wire and in logs.

    >>> name(Reporting(3, 1))
    'reporting'
    """
    return str(state.__struct_config__.tag)


def reason(state: State) -> str:
    """Why the device is in this state, as text for people.

    >>> reason(Reporting(3, 1))
    'waiting for the receipt of round 3'
    """
    match state:
        case Ineligible(why, _) | Settling(why, _):
            return why
        case CheckedIn():
            return "waiting to be selected"
        case Preparing(assignment, _):
            return f"fetching the model for round {assignment.round}"
        case Training(assignment, _):
            return f"training for round {assignment.round}"
        case Finishing(assignment, _, _, why):
            return f"{why}; keeping what was trained for round {assignment.round}"
        case Reporting(number, _):
            return f"waiting for the receipt of round {number}"
        case Resting(_, why, _, _):
            return why


def gave_up(before: State, state: State) -> TypeGuard[Working]:
    """Whether a session ended without a report."""
    return isinstance(before, Working) and not isinstance(state, Working | Reporting)


def due_at_s(state: State) -> float | None:
    """When this state times out; None if only an event can end it.

    >>> due_at_s(Resting(60.0, "round in progress"))
    60.0
    """
    match state:
        case CheckedIn(_, when_s) | Preparing(_, when_s) | Training(_, when_s) | Resting(when_s, _, _, _):
            return when_s
        case Finishing(_, when_s, _, _):
            return when_s
        case Ineligible() | Settling() | Reporting():
            return None


Result = tuple[State, tuple[Effect, ...]]


# --- the machine ----------------------------------------------------------------------------------------------------


def step(state: State, event: Event) -> Result:
    """Make one transition.

    >>> from nightjar.edge_agent.core.events import Moment
    >>> step(STARTING, Prepared(Moment(0.0, 0.0)))
    Traceback (most recent call last):
    nightjar.wire.errors.IllegalEvent: lifecycle, ineligible: Prepared cannot happen here

    Returns:
        The next state and the effects, in the order in which they must run.

    Raises:
        IllegalEvent: the table has no such row.
    """
    return find_row(TABLE, type(state), type(event), lambda: f"lifecycle, {name(state)}").handle(state, event)


def _stay(state: State, _event: Event) -> Result:
    return state, ()


def _follow_conditions(state: State, event: ConditionsJudged) -> Result:
    """The state that follows from the conditions alone."""
    match event.run:
        case EligibilityRun.UNFIT:
            return Ineligible(event.reason, event.cause or DropoutCause.IN_USE), ()
        case EligibilityRun.SETTLING:
            cause = state.cause if isinstance(state, Ineligible | Settling) else DropoutCause.IN_USE
            return Settling(event.reason, cause), ()
        case EligibilityRun.FIT:
            return _check_in(event.at, tries=1)


def _check_in(at: Moment, tries: int) -> Result:
    return CheckedIn(tries, at.now_s + CHECK_IN_AGAIN.delay_s(tries, at.jitter)), (SendCheckIn(),)


def _wait_for_answer(state: CheckedIn, event: ConditionsJudged) -> Result:
    if event.run is EligibilityRun.UNFIT:
        return _follow_conditions(state, event)
    return (state, ()) if event.at.now_s < state.again_at_s else _check_in(event.at, state.tries + 1)


def _check_in_again(_state: CheckedIn, event: Connected) -> Result:
    # The broker has published our last will, so the coordinator has removed us from its pool.
    return _check_in(event.at, tries=1)


def _check_in_soon(state: CheckedIn, event: Announced) -> Result:
    spread_s = NUDGE_SPREAD_S if event.within_s is None else event.within_s
    return CheckedIn(1, min(state.again_at_s, event.at.now_s + spread_s * event.at.jitter)), ()


def _come_sooner(state: Resting, event: Announced) -> Result:
    if event.recalled and state.unwanted:
        spread_s = NUDGE_SPREAD_S if event.within_s is None else event.within_s
        return replace(state, until_s=min(state.until_s, event.at.now_s + spread_s * event.at.jitter)), ()
    # Only after a report: a new round does not remove the reason for any other rest.
    if event.within_s is None or not state.round:
        return state, ()
    soon_s = event.at.now_s + event.within_s * event.at.jitter
    return Resting(min(state.until_s, soon_s), state.reason, state.round, state.attempt), ()


def _accept(_state: CheckedIn, event: Assigned) -> Result:
    deadline_s = event.at.now_s + min(event.assignment.report_deadline_s, event.limit_s)
    return Preparing(event.assignment, deadline_s), (Prepare(event.assignment),)


def _refuse(state: State, event: Assigned) -> Result:
    asked = (event.assignment.round, event.assignment.attempt)
    match state:
        case Preparing(mine, _) | Training(mine, _) | Finishing(mine, _, _, _) if asked == (mine.round, mine.attempt):
            return state, ()
        case Reporting(number, attempt) | Resting(_, _, number, attempt) if asked == (number, attempt):
            return state, ()
        case Ineligible() | Settling():
            return state, (SendDropout(*asked, state.cause, f"{name(state)}: {reason(state)}"),)
        case _:
            return state, (SendDropout(*asked, DropoutCause.IN_USE, f"{name(state)}: {reason(state)}"),)


def _rest_after_rejection(_state: CheckedIn, event: Rejected) -> Result:
    rejection = event.rejection
    rest_s = max(rejection.retry_after_s, SHORTEST_REST_S)
    why = f"{rejection.detail or rejection.reason.value.replace('-', ' ')}; again in {rest_s:.0f} s"
    return Resting(event.at.now_s + rest_s, why, unwanted=rejection.reason is RejectionReason.NO_TASK), ()


def _watch_work(state: Preparing | Training, event: ConditionsJudged) -> Result:
    if event.run is EligibilityRun.UNFIT and event.cause is not None:
        return _give_up(state, event.cause, event.reason, Ineligible(event.reason, event.cause))
    if event.at.now_s >= state.deadline_s:
        cause = DropoutCause.OUT_OF_TIME
        return _give_up(state, cause, "the deadline passed", _rest_a_little(event.at, "out of time"))
    return state, ()


def _watch_training(state: Training, event: ConditionsJudged) -> Result:
    mine, now_s = state.assignment, event.at.now_s
    if (
        event.run is EligibilityRun.UNFIT
        and event.cause is not None
        and event.cause is not DropoutCause.METERED
        and mine.plan.keep_share < 1.0
        and now_s + FINISH_S < state.deadline_s
    ):
        return Finishing(mine, now_s + FINISH_S, event.cause, event.reason), (StopWork(),)
    return _watch_work(state, event)


def _finish(state: Finishing, event: ConditionsJudged) -> Result:
    return (state, ()) if event.at.now_s < state.until_s else _end_without(state, event)


def _end_without(state: Finishing, _event: ConditionsJudged | WorkFailed) -> Result:
    return _give_up(state, state.cause, state.why, Ineligible(state.why, state.cause))


def _give_up(state: Working, cause: DropoutCause, detail: str, then: State) -> Result:
    mine = state.assignment
    return then, (StopWork(), SendDropout(mine.round, mine.attempt, cause, detail))


def _rest_a_little(at: Moment, why: str) -> Resting:
    # Checking in at once would only repeat the failure.
    return Resting(at.now_s + CHECK_IN_AGAIN.delay_s(1, at.jitter), why)


def _train(state: Preparing, _event: Prepared) -> Result:
    return Training(state.assignment, state.deadline_s), (Train(state.assignment),)


def _report(state: Training | Finishing, _event: Trained) -> Result:
    return Reporting(state.assignment.round, state.assignment.attempt), ()


def _fail(state: Preparing | Training, event: WorkFailed) -> Result:
    mine, rest = state.assignment, _rest_a_little(event.at, event.detail)
    if event.cause is DropoutCause.OUTSIDE_LIMITS:
        rest = Resting(event.at.now_s + REST_AFTER_REFUSAL_S, event.detail)
    return rest, (SendDropout(mine.round, mine.attempt, event.cause, event.detail),)


def _rest_after_receipt(state: Reporting, event: ReportSettled) -> Result:
    receipt = event.receipt
    rest_s = max(receipt.retry_after_s, SHORTEST_REST_S)
    why = f"report of round {state.round} {receipt.verdict.value}" + (f" ({receipt.code})" if receipt.code else "")
    return Resting(event.at.now_s + rest_s, why, state.round, state.attempt), ()


def _rest(state: Resting, event: ConditionsJudged) -> Result:
    return (state, ()) if event.at.now_s < state.until_s else _follow_conditions(state, event)


def _begin_anew(_state: State, _event: Restarted) -> Result:
    return STARTING, ()


def _say_restarted(state: Working, event: Restarted) -> Result:
    mine = state.assignment
    if event.deaths < CRASHES_ALLOWED:
        return STARTING, (SendDropout(mine.round, mine.attempt, DropoutCause.RESTARTED, "the agent was restarted"),)
    why = f"the last {event.deaths} sessions ended the agent"
    given_up = SendDropout(mine.round, mine.attempt, DropoutCause.TRAINING_FAILED, why)
    return Resting(event.at.now_s + REST_AFTER_DEATHS_S, why), (given_up,)


def _stop(_state: State, _event: Stopping) -> Result:
    return Ineligible("stopped", DropoutCause.RESTARTED), ()


def _stop_work(state: Working, _event: Stopping) -> Result:
    cause = DropoutCause.RESTARTED
    return _give_up(state, cause, "the agent was stopped", Ineligible("stopped", cause))


TABLE = table(_rows())
