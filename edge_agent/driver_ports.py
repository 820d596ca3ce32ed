"""What the driver is made with: the adapters to everything outside it, and its pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nightjar.edge_agent.core.eligibility import DEFAULT_POLICY, Policy
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import (
    Artifacts,
    Clock,
    Conditions,
    ExampleStore,
    Journal,
    RandomFor,
    Releases,
    SumMachine,
    Transport,
    Trust,
    Worker,
)
from nightjar.edge_agent.session import Desk
from nightjar.wire.limits import NONE as NO_LIMITS
from nightjar.wire.limits import Limits

SESSION_LIMIT_S = 585.0
"""Longest session, unless the report is due earlier: phones' job schedulers end a job after ten minutes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals, limits and policy of the driver.

    Attributes:
        poll_s: interval between readings of the conditions.
        hysteresis_s: how long the conditions must hold before the device is eligible.
    """

    poll_s: float
    hysteresis_s: float
    session_limit_s: float = SESSION_LIMIT_S
    policy: Policy = field(default_factory=lambda: DEFAULT_POLICY)


@dataclass(frozen=True, slots=True)
class Ports:
    """The adapters to everything outside the driver.

    Attributes:
        jitter: returns random numbers in [0, 1).
        random_for: makes the random generators of sessions.
        show_model: receives each new model for the keyboard; None if there is no keyboard.
        releases: looks for releases of the agent; None where nothing could install one.
        remember_connection: stores the state of the connection, for ``status``.
        turned: called at each iteration of the driver's loop, to feed a watchdog.
    """

    clock: Clock
    jitter: Callable[[], float]
    random_for: RandomFor
    conditions: Conditions
    transport: Transport
    artifacts: Artifacts
    examples: ExampleStore
    journal: Journal
    worker: Worker
    desk: Desk
    trust: Trust
    sums: SumMachine
    limits: Limits = NO_LIMITS
    show_model: Callable[[Model], None] | None = None
    releases: Releases | None = None
    remember_connection: Callable[[str], None] = lambda _state: None
    turned: Callable[[], None] = lambda: None
