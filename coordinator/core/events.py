"""What happens to a round, and what a round wants done: values without behaviour.

Events are in the past tense and carry their time; effects are imperative. :mod:`coordinator.core.round` is the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from wire.identifiers import DeviceId
from wire.messages import DropoutCause, RejectionReason, Verdict


@dataclass(frozen=True, slots=True)
class DeviceCheckedIn:
    """An admissible device is ready to train."""

    device: DeviceId
    now_s: float


@dataclass(frozen=True, slots=True)
class DeviceLost:
    """A device's connection is gone, or it says that it is no longer eligible."""

    device: DeviceId
    now_s: float


@dataclass(frozen=True, slots=True)
class DeviceReturned:
    """A device is connected again."""

    device: DeviceId
    now_s: float


@dataclass(frozen=True, slots=True)
class DeviceDroppedOut:
    """A device says that it gives up its seat."""

    device: DeviceId
    attempt: int
    cause: DropoutCause
    now_s: float


@dataclass(frozen=True, slots=True)
class ReportReceived:
    """A report came; an empty code means that the checks found no fault."""

    device: DeviceId
    attempt: int
    now_s: float
    code: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ClockTicked:
    """Time passed; ``elsewhere`` says what the devices do that did not come, for when a selection ends without them."""

    now_s: float
    elsewhere: str = ""


@dataclass(frozen=True, slots=True)
class AggregationFinished:
    """The reports were averaged to a new version; None if they held figures only."""

    version: int | None
    now_s: float


@dataclass(frozen=True, slots=True)
class AggregationFailed:
    """The reports could not be averaged."""

    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class CalledOff:
    """No round is wanted for now; devices that have begun to train may finish."""

    reason: str
    now_s: float


Event = (
    DeviceCheckedIn
    | DeviceLost
    | DeviceReturned
    | DeviceDroppedOut
    | ReportReceived
    | ClockTicked
    | AggregationFinished
    | AggregationFailed
    | CalledOff
)


# Effects


class AssignDevice(msgspec.Struct, frozen=True, tag=True):
    """Tell a device that it was selected."""

    device: DeviceId
    round: int
    attempt: int


class RejectCheckIn(msgspec.Struct, frozen=True, tag=True):
    """Tell a device to come back later; not before so many more ``rounds`` have passed.

    ``task`` is the one that turned it away, and whose rounds it is steered by; empty if none did.
    """

    device: DeviceId
    reason: RejectionReason
    detail: str = ""
    rounds: int = 0
    task: str = ""


class KeepReport(msgspec.Struct, frozen=True, tag=True):
    """Store the report durably, in the same transaction as the new state and before any receipt."""

    device: DeviceId
    round: int
    attempt: int


class SendReceipt(msgspec.Struct, frozen=True, tag=True):
    """Tell a device what became of its report."""

    device: DeviceId
    round: int
    attempt: int
    verdict: Verdict
    code: str = ""
    detail: str = ""


class StartAggregation(msgspec.Struct, frozen=True, tag=True):
    """Average the reports of the round."""

    round: int


Effect = AssignDevice | RejectCheckIn | KeepReport | SendReceipt | StartAggregation
