"""The transport of a device that needs a claim and has none: it connects to nobody."""

from __future__ import annotations

from collections.abc import Callable

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from nightjar.edge_agent.inbox import LinkDown

WHY = "this device is not enrolled: it is a keyboard, and connects to nobody"


class NoTransport:
    """Implements :class:`nightjar.edge_agent.ports.Transport`, and has no connection, ever.

    ``post`` receives the reason once.
    """

    connected = False
    twin = ""

    def __init__(self, post: Callable[[LinkDown], None]) -> None:
        self._post = post

    def start(self) -> None:
        """Say why there is no connection."""
        self._post(LinkDown(WHY))

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:  # noqa: ARG002 - the port's
        """Drop a message."""
        return False

    def close(self, topic: str, payload: bytes) -> None:
        """Nothing to end."""


def not_enrolled() -> Readings:
    """A probe of the device's conditions: it must not check in, and says why."""
    return {Condition.WANTED: ConditionReading(Answer.NO, "settings", WHY)}
