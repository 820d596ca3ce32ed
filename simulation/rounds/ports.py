"""The agent's ports for a simulated phone; each delegates to functions of the phone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.core.eligibility import Readings
from edge_agent.ports import Job, Model
from wire.identifiers import Sha256


@dataclass(frozen=True, slots=True)
class SimulatedClock:
    """Implements :class:`edge_agent.ports.Clock`."""

    monotonic_s: Callable[[], float]
    wall_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class SimulatedConditions:
    """Implements :class:`edge_agent.ports.Conditions`."""

    read: Callable[[], Readings]


@dataclass(frozen=True, slots=True)
class FixedExamples:
    """Implements :class:`edge_agent.ports.ExampleStore` with fixed messages."""

    kept: tuple[str, ...]

    def add(self, text: str) -> str:
        """Store nothing; returns the empty string."""
        return text[:0]

    def count(self) -> int:
        """Number of messages."""
        return len(self.kept)

    def texts(self) -> list[str]:
        """All messages."""
        return list(self.kept)


@dataclass(frozen=True, slots=True)
class SimulatedTransport:
    """Implements :class:`edge_agent.ports.Transport`."""

    is_connected: Callable[[], bool]
    send: Callable[[str, bytes, bool], bool]

    @property
    def connected(self) -> bool:
        """Whether the phone is connected to the broker."""
        return self.is_connected()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Send a message; False without a connection."""
        return self.send(topic, payload, retain)

    def close(self, topic: str, payload: bytes) -> None:
        """Do nothing: simulated phones never disconnect, they sleep or lose power."""


@dataclass(frozen=True, slots=True)
class SimulatedWorker:
    """Implements :class:`edge_agent.ports.Worker`."""

    start: Callable[[Job], None]
    stop: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SimulatedArtifacts:
    """Implements :class:`edge_agent.ports.Artifacts`."""

    newest: Callable[[], Model | None]
    bring: Callable[[Sha256, Callable[[], bool]], Model]

    def current(self) -> Model | None:
        """The newest model on the phone."""
        return self.newest()

    def fetch(self, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
        """Download a model."""
        return self.bring(manifest, should_stop)
