"""What is to be done after a transaction, in a form that survives a restart.

The round's effects and the driver's own lie as JSON in the database until they are done. Each may be carried out more
than once. ``KeepReport`` and ``CountRefusal`` never get here: they are done inside the transaction.
"""

from __future__ import annotations

import msgspec

from coordinator.rounds.events import AssignDevice, RejectCheckIn, SendReceipt, StartAggregation
from wire.identifiers import DeviceId


class AnnounceModel(msgspec.Struct, frozen=True, tag=True):
    """Publish the current manifest, retained."""


class EvaluateVersion(msgspec.Struct, frozen=True, tag=True):
    """Measure a version that did not come out of an aggregation: the imported one."""

    version: int


class SendMissing(msgspec.Struct, frozen=True, tag=True):
    """Tell a device which chunks of its report have not come."""

    device: DeviceId
    round: int
    attempt: int
    chunks: tuple[int, ...]


class ClearRetained(msgspec.Struct, frozen=True, tag=True):
    """Have the broker forget what a device left on a topic."""

    topic: str


PendingEffect = (
    AssignDevice
    | RejectCheckIn
    | SendReceipt
    | SendMissing
    | StartAggregation
    | AnnounceModel
    | EvaluateVersion
    | ClearRetained
)

_DECODER: msgspec.json.Decoder[PendingEffect] = msgspec.json.Decoder(PendingEffect)


def to_json(effect: PendingEffect) -> bytes:
    """An effect as one line of JSON."""
    return msgspec.json.encode(effect)


def from_json(data: bytes) -> PendingEffect:
    """Inverse of :func:`to_json`.

    Raises:
        msgspec.MsgspecError: our own database holds something that we did not write.
    """
    return _DECODER.decode(data)
