"""The agent's ports for a simulated phone; each delegates to functions of the phone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from nightjar.edge_agent.core.secure_sum import Tools
from nightjar.edge_agent.core.stored import NewReport
from nightjar.edge_agent.core.sum_steps import SumRequest, SumStep, advance
from nightjar.edge_agent.inbox import Job
from nightjar.edge_agent.model import Model
from nightjar.host.primitives import EnrolledKey, LibraryPrimitives
from nightjar.models.manifest import KEYBOARD
from nightjar.models.source import Source
from nightjar.wire.identifiers import DeviceId, Sha256
from nightjar.wire.secure_sum.masks import Words

_SOURCE = "simulated"
ALL_HOLD: Readings = {
    condition: ConditionReading(Answer.YES, _SOURCE, "holds")
    for condition in Condition
    if condition is not Condition.HAS_EXAMPLES
}
"""Readings of a free phone."""
ONE_LOST: tuple[Readings, ...] = (
    {**ALL_HOLD, Condition.CHARGING: ConditionReading(Answer.NO, _SOURCE, "not charging")},
    {**ALL_HOLD, Condition.IDLE: ConditionReading(Answer.NO, _SOURCE, "in use")},
    {**ALL_HOLD, Condition.UNMETERED: ConditionReading(Answer.NO, _SOURCE, "not on Wi-Fi")},
)
"""Readings of a phone that is not free, for one reason each."""


class ReportObserver(Protocol):
    """Is told of the reports that phones make."""

    def produced(self, device: DeviceId, report: NewReport) -> None:
        """Note that a phone stored a report in its outbox."""

    def contributed(self, device: DeviceId, report: NewReport, words: Words) -> None:
        """Note what a phone would give to a secure sum before it is masked."""


@dataclass(frozen=True, slots=True)
class SimulatedClock:
    """Implements :class:`nightjar.edge_agent.ports.Clock`."""

    monotonic_s: Callable[[], float]
    wall_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class SimulatedConditions:
    """Implements :class:`nightjar.edge_agent.ports.Conditions`."""

    read: Callable[[], Readings]


@dataclass(frozen=True, slots=True)
class FixedExamples:
    """Implements :class:`nightjar.edge_agent.ports.ExampleStore` with fixed messages."""

    kept: tuple[str, ...]

    def count(self) -> int:
        """Number of messages."""
        return len(self.kept)

    def source(self) -> Source:
        """All messages."""
        return Source(self.kept)

    def task_types(self) -> tuple[str, ...]:
        """The only task type that learns from messages."""
        return (KEYBOARD,)


@dataclass(frozen=True, slots=True)
class SimulatedTransport:
    """Implements :class:`nightjar.edge_agent.ports.Transport`."""

    is_connected: Callable[[], bool]
    send: Callable[[str, bytes, bool], bool]

    @property
    def connected(self) -> bool:
        """Whether the phone is connected to the broker."""
        return self.is_connected()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Send a message; False without a connection."""
        return self.send(topic, payload, retain)


@dataclass(frozen=True, slots=True)
class SimulatedWorker:
    """Implements :class:`nightjar.edge_agent.ports.Worker`."""

    start: Callable[[Job], None]
    stop: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SimulatedArtifacts:
    """Implements :class:`nightjar.edge_agent.ports.Artifacts`."""

    current: Callable[[], Model | None]
    fetch: Callable[[Sha256, Callable[[], bool]], Model]
    announced: Callable[[], Model | None]
    adopt: Callable[[Model], Model]


@functools.cache
def enrolled_key(number: int) -> EnrolledKey:
    """The key with which a phone would be enrolled."""
    return EnrolledKey(ec.derive_private_key(1000 + number, ec.SECP256R1()))


@dataclass(frozen=True, slots=True)
class SimulatedSums:
    """Implements :class:`nightjar.edge_agent.ports.SumMachine` with the real one; ``draw_seed`` returns 32 bytes."""

    number: int
    draw_seed: Callable[[], bytes]

    def __call__(self, request: SumRequest) -> SumStep:
        """Make a step."""
        key = enrolled_key(self.number)
        return advance(request, Tools(LibraryPrimitives(), key.sign), key.public, self.draw_seed)


class AnyCoordinator:
    """Implements :class:`nightjar.edge_agent.ports.Trust`: trusts all, because simulated orders are not signed."""

    def announced(self, payload: bytes) -> None:
        """Ignore the key."""

    def refused(self, why: str) -> None:
        """Ignore the refusal."""

    def check(self, kind: str, payload: bytes) -> None:
        """Accept every order."""
