"""The events of the coordinator's single queue. Adapters post them; the driver handles them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nightjar.coordinator.records.jobs import Result
from nightjar.coordinator.tasks.operations import Operation, OperationRefused


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A message arrived from the broker.

    Attributes:
        retained: True for a retained message, which may be old.
        acknowledge: acknowledges the message to the broker once it has been handled.
        refused: whether its device was cut off while the message waited, so that it is not to be handled.
    """

    topic: str
    payload: bytes
    retained: bool = False
    acknowledge: Callable[[], None] = field(default=lambda: None, compare=False)
    refused: Callable[[], bool] = field(default=lambda: False, compare=False)


@dataclass(frozen=True, slots=True)
class BrokerConnected:
    """The connection to the broker was established."""


@dataclass(frozen=True, slots=True)
class BrokerDisconnected:
    """The connection to the broker was lost."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """A clock tick: time to check deadlines."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The worker finished a job."""

    result: Result


@dataclass(frozen=True, slots=True)
class ArtifactServed:
    """An artifact, or part of one, was sent over HTTP."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerDropped:
    """The broker reported that it dropped messages."""

    count: int


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The broker did not keep our session across a reconnect: messages that it acknowledged to devices may be lost."""

    shard: int


@dataclass(frozen=True, slots=True)
class Operated:
    """An operator requested a change.

    Attributes:
        answer: called after the commit with whether anything changed, or with the refusal.
    """

    operation: Operation
    who: str
    answer: Callable[[bool | OperationRefused], None] = field(default=lambda _changed: None, compare=False)


@dataclass(frozen=True, slots=True)
class BrokerRefused:
    """The broker refused our connection or our subscriptions; the client retries with back-off."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeviceFlooded:
    """A device sent more than its rate limit and was cut off (:mod:`nightjar.coordinator.rate_limits`)."""

    device: str
    lasts_s: float


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The process was asked to shut down."""


Inbox = (
    MessageArrived
    | BrokerConnected
    | BrokerDisconnected
    | Ticked
    | JobEnded
    | ArtifactServed
    | BrokerDropped
    | SessionLost
    | BrokerRefused
    | DeviceFlooded
    | Operated
    | ShutdownRequested
)
