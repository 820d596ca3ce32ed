"""Pending effects: actions to carry out after a transaction commits, stored so that they survive a restart.

The effects of rounds and of the driver are kept as JSON in the database until they are done. Each may be carried out
more than once. ``KeepReport`` and ``CountRefusal`` are never pending: they are applied inside the transaction.
"""

from __future__ import annotations

import msgspec

from nightjar.coordinator.rounds.events import AssignDevice, RejectCheckIn, SendReceipt, StartAggregation
from nightjar.wire.identifiers import DeviceId


class AnnounceModel(msgspec.Struct, frozen=True, tag=True):
    """Publish the current manifest as a retained message."""


class EvaluateVersion(msgspec.Struct, frozen=True, tag=True):
    """Measure a version that was not made by an aggregation: an imported one."""

    version: int


class SendMissing(msgspec.Struct, frozen=True, tag=True):
    """Tell a device which chunks of its report are missing."""

    device: DeviceId
    round: int
    attempt: int
    chunks: tuple[int, ...]


class SendSumQuestion(msgspec.Struct, frozen=True, tag=True):
    """Send a device a message of a secure sum."""

    device: DeviceId
    question: bytes


class ClearRetained(msgspec.Struct, frozen=True, tag=True):
    """Clear the message that the broker retains on a topic."""

    topic: str


PendingEffect = (
    AssignDevice
    | RejectCheckIn
    | SendReceipt
    | SendMissing
    | SendSumQuestion
    | StartAggregation
    | AnnounceModel
    | EvaluateVersion
    | ClearRetained
)

EFFECTS: msgspec.json.Decoder[PendingEffect] = msgspec.json.Decoder(PendingEffect)
"""Reads a stored effect."""
