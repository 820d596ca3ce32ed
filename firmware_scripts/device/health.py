"""Checks whether a release is healthy: the agent is up, connected to its broker, and can train a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

AGENT = "nightjar-agent.service"
SELF_TEST = "nightjar-self-test.service"
MOST_RESTARTS = 3
LOOK_EVERY_S = 2.0
CONNECTED = "connected"
"""The start of the agent unit's status text while the agent is connected (edge_agent.assembly)."""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of the agent's unit: whether it is up (its driver runs) and connected, and its number of restarts."""

    up: bool
    connected: bool
    restarts: int
    text: str


class Patient(Protocol):
    """The agent under examination."""

    def look(self) -> Look:
        """The current state of the agent's unit."""

    def self_test(self) -> str:
        """Train a step; return why that failed, or an empty text."""


@dataclass(frozen=True, slots=True)
class Time:
    """A monotonic clock, a way to wait, and the time limit for a release."""

    now_s: Callable[[], float]
    sleep: Callable[[float], None]
    limit_s: float


def examine(patient: Patient, time: Time) -> str:
    """Why the release is not healthy; an empty text if it is.

    Ends early if the agent keeps crashing.
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
    # The self-test trains beside the agent, and the agent must survive that.
    after = patient.look()
    return "" if after.up else f"the agent fell over during the self-test: {after.text}"
