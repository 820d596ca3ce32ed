"""What happens to a round, and what a round wants done: values without behaviour.

Events are in the past tense and carry their time; effects are imperative. :mod:`coordinator.rounds.round` is the
machine.
"""

from __future__ import annotations

import msgspec

from wire.identifiers import DeviceId
from wire.messages import DropoutCause, RejectionReason, Verdict


class DeviceCheckedIn(msgspec.Struct, frozen=True):
    """An admissible device is ready to train."""

    device: DeviceId
    now_s: float


class DeviceLost(msgspec.Struct, frozen=True):
    """A device's connection is gone, or it says that it is no longer eligible."""

    device: DeviceId
    now_s: float


class DeviceReturned(msgspec.Struct, frozen=True):
    """A device is connected again."""

    device: DeviceId
    now_s: float


class DeviceDroppedOut(msgspec.Struct, frozen=True):
    """A device says that it gives up its seat."""

    device: DeviceId
    attempt: int
    cause: DropoutCause
    now_s: float


class ReportReceived(msgspec.Struct, frozen=True):
    """A report came; an empty code means that the checks found no fault."""

    device: DeviceId
    attempt: int
    now_s: float
    code: str = ""
    detail: str = ""


class ClockTicked(msgspec.Struct, frozen=True):
    """Time passed; ``elsewhere`` says what the devices do that did not come, for when a selection ends without them."""

    now_s: float
    elsewhere: str = ""


class AggregationFinished(msgspec.Struct, frozen=True):
    """The reports were averaged to a new version; None if they held figures only.

    ``unreadable`` are the devices whose reports turned out not to be updates and are not in the mean.
    """

    version: int | None
    now_s: float
    unreadable: tuple[DeviceId, ...] = ()


class ReportsUnreadable(msgspec.Struct, frozen=True):
    """So many reports turned out not to be updates that too few are left for a mean."""

    devices: tuple[DeviceId, ...]
    now_s: float


class AggregationFailed(msgspec.Struct, frozen=True):
    """The reports could not be averaged."""

    reason: str
    now_s: float


class CalledOff(msgspec.Struct, frozen=True):
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
    | ReportsUnreadable
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


class CountRefusal(msgspec.Struct, frozen=True, tag=True):
    """Note, in the same transaction as the new state, that a report of the device could not be used."""

    device: DeviceId


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


Effect = AssignDevice | RejectCheckIn | KeepReport | CountRefusal | SendReceipt | StartAggregation
