"""What the agent stores to survive a power cut: the changes of one event, and what the next process finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from nightjar.edge_agent.core.events import Event, Restarted, SendDropout, Trained
from nightjar.edge_agent.core.lifecycle import State
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.wire.messages import Verdict


@dataclass(frozen=True, slots=True)
class NewReport:
    """A report that is ready to be sent."""

    parcel: Parcel
    frame: bytes


ABORTED = "aborted"
"""Phase of a secure sum in which the device answers no more."""


class ConfirmedCohort(msgspec.Struct, frozen=True, array_like=True):
    """Devices whose sum this device agreed to open, on weights with this hash (``sum_steps.cohort_of``)."""

    weights: str
    members: bytes


MOST_COHORT_BYTES = 64 * 1024
"""Of the cohorts that are remembered: three hundred of 26 devices."""


class SumState(msgspec.Struct, frozen=True):
    """The last secure sum that the device joined.

    Attributes:
        round: its round; with the number, what a device joins only once.
        phase: name of the machine's state (:mod:`nightjar.edge_agent.core.sum_steps`).
        state: the machine's state; empty if the device answers no more.
        weights: hash of the weights that its updates are relative to.
        confirmed: whose sums the device agreed to open, oldest first, also in sums before.
    """

    number: int
    round: int
    session: bytes
    phase: str
    state: bytes
    weights: str = ""
    confirmed: tuple[ConfirmedCohort, ...] = ()


def agreed(held: SumState, members: bytes) -> SumState:
    """The state after the device has agreed to open a sum of these members; above a limit the oldest are forgotten."""
    new = ConfirmedCohort(held.weights, members)
    kept = [new, *(each for each in reversed(held.confirmed) if each != new)]
    while sum(len(each.members) for each in kept) > MOST_COHORT_BYTES and len(kept) > 1:
        kept.pop()
    return replace(held, confirmed=tuple(reversed(kept)))


def over(held: SumState) -> SumState:
    """The state of a device that answers no more, and only remembers which session it had joined."""
    return replace(held, phase=ABORTED, state=b"")


def crash_count_after(event: Event) -> int | None:
    """How many processes in a row died during a session; None if the event does not change the count."""
    match event:
        case Restarted(_, deaths):
            return deaths
        case Trained():
            return 0
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one event, written in one transaction.

    None leaves its part as it is. ``receipted`` is the verdict on the report in the outbox, which is deleted. The
    dropouts are to be sent even if the process dies now; ``deaths`` is how many processes in a row died during a
    session.
    """

    lifecycle: State
    report: NewReport | None = None
    receipted: Verdict | None = None
    dropouts: Sequence[SendDropout] = ()
    deaths: int | None = None
    charged: LedgerEntry | None = None
    summing: SumState | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """The state that the last process left.

    ``lifecycle`` is None on a new device; ``deaths`` is how many processes in a row, before the last one, died during a
    session.
    """

    lifecycle: State | None
    parcel: Parcel | None
    deaths: int = 0
    summing: SumState | None = None


@dataclass(frozen=True, slots=True)
class PendingDropout:
    """A dropout that has not been handed to the connection yet."""

    number: int
    dropout: SendDropout


@dataclass(frozen=True, slots=True)
class AgentTally:
    """Counts of what the device has done so far.

    Attributes:
        last_report_bytes: size of the newest report; None if there was none.
        last_trained_at_s: when a training last ended, seconds since 1970 UTC; None if never.
        last_report_summed: whether the coordinator learned only a sum that the newest report is in.
    """

    reports_sent: int = 0
    bytes_sent: int = 0
    last_report_bytes: int | None = None
    last_trained_at_s: float | None = None
    last_report_summed: bool = False


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits on the typed text that is kept and that one session uses; the oldest messages are removed first.

    Attributes:
        session_messages: most messages that one session learns from, newest first: bounds one person's contribution.
        repeats: how often an identical message counts in a session.
    """

    messages: int
    total_bytes: int
    age_s: float
    session_messages: int = 2_000
    repeats: int = 3
    forbidden: Sequence[str] = ()
