"""What may happen to the coordinator: the events of its one queue. Adapters post them, the driver handles them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.engine.jobs import Result
from coordinator.tasks.operations import Operation, OperationRefused


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """Bytes came from the broker.

    Attributes:
        topic: where.
        payload: what.
        retained: the broker kept it; it may be old.
        acknowledge: tells the broker that the message is dealt with.
    """

    topic: str
    payload: bytes
    retained: bool = False
    acknowledge: Callable[[], None] = field(default=lambda: None, compare=False)


@dataclass(frozen=True, slots=True)
class BrokerConnected:
    """The broker was reached."""


@dataclass(frozen=True, slots=True)
class BrokerDisconnected:
    """The broker was lost."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The worker is done with a job."""

    result: Result


@dataclass(frozen=True, slots=True)
class ArtifactServed:
    """A response with an artifact or a part of one went out over HTTP."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerDropped:
    """The broker says that it threw messages away."""

    count: int


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The broker did not keep our session over a reconnect: messages may be lost that their senders believe arrived."""

    shard: int


@dataclass(frozen=True, slots=True)
class Operated:
    """An operator asks for a change.

    Attributes:
        operation: what.
        who: asks.
        answer: is told after the commit whether anything changed, or why it cannot be done.
    """

    operation: Operation
    who: str
    answer: Callable[[bool | OperationRefused], None] = field(default=lambda _changed: None, compare=False)


@dataclass(frozen=True, slots=True)
class BrokerRefused:
    """The broker does not want us, or not our subscriptions; it is asked again with back-off."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The process should end."""


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
    | Operated
    | ShutdownRequested
)
