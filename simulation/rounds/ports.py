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


class AnyCoordinator:
    """Implements :class:`edge_agent.ports.Trust`: trusts every sender, because simulated orders are not signed."""

    def announced(self, payload: bytes) -> None:
        """Ignore the key."""

    def refused(self, why: str) -> None:
        """Ignore the refusal."""

    def check(self, kind: str, payload: bytes) -> None:
        """Accept every order."""
