"""Events and effects of the state machine in :mod:`nightjar.edge_agent.core.lifecycle`.

Events are named in the past tense and carry the moment at which they happened. Effects are named in the imperative, and
each may be run twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.edge_agent.core.eligibility import EligibilityRun
from nightjar.wire.messages import Assignment, DropoutCause, Receipt, Rejection


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event happened, on a clock that does not jump, and the random number in [0, 1) drawn for it."""

    now_s: float
    jitter: float


@dataclass(frozen=True, slots=True)
class ConditionsJudged:
    """The conditions were judged; ``cause`` is None unless the run is UNFIT."""

    at: Moment
    run: EligibilityRun
    reason: str
    cause: DropoutCause | None


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker connection is up (again), and our subscriptions are granted."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Announced:
    """The coordinator announced its current model; it is running, perhaps after a restart.

    Attributes:
        within_s: a round has just opened with room for every device, and check-ins should come within this time; None
            if the announcement does not say so.
        recalled: a task was created or resumed since the last announcement.
    """

    at: Moment
    within_s: float | None = None
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """The coordinator selected us; ``limit_s`` is the longest session on this device."""

    at: Moment
    assignment: Assignment
    limit_s: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """The coordinator rejected our check-in for now."""

    at: Moment
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class Prepared:
    """The model of the assignment is on the device."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Trained:
    """The update is encoded; it goes to the outbox in the same transaction as the new state."""

    at: Moment


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """Preparing or training failed."""

    at: Moment
    cause: DropoutCause
    detail: str


@dataclass(frozen=True, slots=True)
class ReportSettled:
    """The receipt for the report in the outbox arrived."""

    at: Moment
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process started; the state is the one that the last process left.

    ``deaths`` counts the processes in a row that died during a session, with no successful session in between.
    """

    at: Moment
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process was asked to stop."""

    at: Moment


Event = (
    ConditionsJudged
    | Connected
    | Announced
    | Assigned
    | Rejected
    | Prepared
    | Trained
    | WorkFailed
    | ReportSettled
    | Restarted
    | Stopping
)


# --- effects -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendCheckIn:
    """Tell the coordinator that we are eligible."""


@dataclass(frozen=True, slots=True)
class SendDropout:
    """Tell the coordinator that we drop out of an assignment, or never accepted it."""

    round: int
    attempt: int
    cause: DropoutCause
    detail: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Fetch the model of the assignment."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Train:
    """Train according to the assignment, and encode the update."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class StopWork:
    """Stop preparing or training; the result is no longer needed, except what FINISHING keeps."""


Effect = SendCheckIn | SendDropout | Prepare | Train | StopWork
