"""What happens to a device, and what it does about it: events and effects of :mod:`edge_agent.core.lifecycle`.

Events are past tense and carry the moment at which they happened; effects are imperative, and each may be run twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.core.eligibility import EligibilityRun
from wire.messages import Assignment, DropoutCause, Receipt, Rejection


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event happened, and the random number that came with it.

    Attributes:
        now_s: seconds on a clock that does not jump.
        jitter: in [0, 1).
    """

    now_s: float
    jitter: float


@dataclass(frozen=True, slots=True)
class ConditionsJudged:
    """The conditions were looked at; ``cause`` is None unless the standing is UNFIT."""

    at: Moment
    standing: EligibilityRun
    reason: str
    cause: DropoutCause | None


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker has us and our subscriptions (again)."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Announced:
    """The coordinator announced its current model: it is there, perhaps again.

    Attributes:
        at: when.
        within_s: a round has just opened that has room for everybody, and this long it is for check-ins to come; None
            if nobody said so.
    """

    at: Moment
    within_s: float | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """The coordinator selected us; ``limit_s`` is the longest that a session may take on this device."""

    at: Moment
    assignment: Assignment
    limit_s: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """The coordinator does not want us now."""

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
    """Preparing or training did not succeed."""

    at: Moment
    cause: DropoutCause
    detail: str


@dataclass(frozen=True, slots=True)
class ReportSettled:
    """The receipt for the report in the outbox came."""

    at: Moment
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process began; the state is the one that the last process left.

    ``deaths`` is how many processes in a row ended in the middle of a session, without one session that ended well.
    """

    at: Moment
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process was asked to end."""

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
    """Tell the coordinator that we give up (or never took up) an assignment."""

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
    """Train as the assignment says, and encode the update."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class StopWork:
    """Stop whatever is being prepared or trained; its result is not wanted any more."""


Effect = SendCheckIn | SendDropout | Prepare | Train | StopWork
