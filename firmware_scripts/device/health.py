"""Whether a release is healthy: the agent is up, connected to its broker, and trains a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

AGENT = "nightjar-agent.service"
SELF_TEST = "nightjar-self-test.service"
MOST_RESTARTS = 3
LOOK_EVERY_S = 2.0
CONNECTED = "connected"
"""How the status text of the agent's unit begins while it is connected (edge_agent.assembly)."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the agent's unit looks like: up (its driver turns), connected, and how often it was started again."""

    up: bool
    connected: bool
    restarts: int
    text: str


class Patient(Protocol):
    """Who is examined."""

    def look(self) -> Look:
        """The agent's unit, now."""

    def self_test(self) -> str:
        """Train a step; why it could not, or an empty text."""


@dataclass(frozen=True, slots=True)
class Time:
    """A clock that does not jump, a way to wait, and how long a release may take."""

    now_s: Callable[[], float]
    sleep: Callable[[float], None]
    limit_s: float


def examine(patient: Patient, time: Time) -> str:
    """Why the release is not healthy; an empty text if it is.

    It ends early where it is lost: an agent that falls over again and again.
    """
    end_s = time.now_s() + time.limit_s
    first: int | None = None
    while True:
        look = patient.look()
        first = look.restarts if first is None else first
        if look.up and look.connected:
            break
        if look.restarts - first >= MOST_RESTARTS:
            return f"the agent ended {look.restarts - first} times: {look.text}"
        if time.now_s() >= end_s:
            what = "not connected to its broker" if look.up else "not up"
            return f"the agent was {what} within {time.limit_s:.0f} s: {look.text}"
        time.sleep(LOOK_EVERY_S)
    failed = patient.self_test()
    if failed:
        return f"the self-test failed: {failed}"
    # The training of the self-test runs beside the agent, which must have outlived it.
    after = patient.look()
    return "" if after.up else f"the agent fell over during the self-test: {after.text}"
