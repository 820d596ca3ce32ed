"""The events and effects of a round: values without behaviour.

Events are named in the past tense and carry their time; effects are imperative. The state machines
are :mod:`nightjar.coordinator.rounds.synchronous` and :mod:`nightjar.coordinator.rounds.buffer`.
"""

from __future__ import annotations

import msgspec

from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause, RejectionReason, Verdict


class DeviceCheckedIn(msgspec.Struct, frozen=True):
    """An admissible device is ready to train."""

    device: DeviceId
    now_s: float


class DeviceLost(msgspec.Struct, frozen=True):
    """A device lost its connection, or reported that it is no longer eligible."""

    device: DeviceId
    now_s: float


class DeviceReturned(msgspec.Struct, frozen=True):
    """A device is connected again."""

    device: DeviceId
    now_s: float


class DeviceDroppedOut(msgspec.Struct, frozen=True):
    """A device reported that it gives up its seat; ``given`` as in ReportReceived."""

    device: DeviceId
    attempt: int
    cause: DropoutCause
    now_s: float
    given: int = 0


class ReportReceived(msgspec.Struct, frozen=True):
    """A report arrived; an empty code means that it passed the checks.

    ``given`` is the round that the report names; only a buffered round takes reports of other rounds than its own.
    """

    device: DeviceId
    attempt: int
    now_s: float
    code: str = ""
    detail: str = ""
    given: int = 0


class ClockTicked(msgspec.Struct, frozen=True):
    """A clock tick; ``elsewhere`` and ``busy`` matter only if the selection times out now.

    ``elsewhere`` says what the missing devices are doing; ``busy`` is how many devices the open
    rounds of other tasks hold.
    """

    now_s: float
    elsewhere: str = ""
    busy: int = 0


class AggregationFinished(msgspec.Struct, frozen=True):
    """The reports were averaged into a new version; ``version`` is None if they held only on-device metrics.

    ``unreadable`` lists the devices whose reports could not be decoded and are not in the mean.
    """

    version: int | None
    now_s: float
    unreadable: tuple[DeviceId, ...] = ()


class ReportsUnreadable(msgspec.Struct, frozen=True):
    """The reports of ``devices`` could not be decoded, and too few others remain for a mean."""

    devices: tuple[DeviceId, ...]
    now_s: float


class AggregationFailed(msgspec.Struct, frozen=True):
    """The reports could not be averaged."""

    reason: str
    now_s: float


class CalledOff(msgspec.Struct, frozen=True):
    """The task wants no round for now; devices that have begun to train may finish."""

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

RoundEvents = tuple[tuple[str, Event], ...]
"""Events for open rounds, each with the name of its task, in the order in which they are applied."""


# Effects


class AssignDevice(msgspec.Struct, frozen=True, tag=True):
    """Tell a device that it was selected."""

    device: DeviceId
    round: int
    attempt: int


class RejectCheckIn(msgspec.Struct, frozen=True, tag=True):
    """Tell a device to come back later, after at least ``rounds`` more rounds.

    ``task`` is the task that rejected it and whose rounds determine the retry time; empty if no task did.
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
    """Count an unusable report against the device, in the same transaction as the new state."""

    device: DeviceId


class SendReceipt(msgspec.Struct, frozen=True, tag=True):
    """Tell a device the verdict on its report."""

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
