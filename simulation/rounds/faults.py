"""The faults, their rates, and the random draws that decide when they happen.

Measured rates are used where they exist; other rates are high enough that every fault happens a few times in fifty
rounds. All draws come from one seeded generator, so the same seed gives the same faults at the same times.

Faults are drawn here and carried out elsewhere: messages in :mod:`~nightjar.simulation.rounds.broker`, phones in
:mod:`~nightjar.simulation.rounds.phone`, the coordinator in :mod:`~nightjar.simulation.rounds.coordinator`.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nightjar.wire.errors import ConfigError


class SimulatedFault(enum.Enum):
    """A kind of fault."""

    DROP = "drop"
    """A message is lost although its publisher got a PUBACK."""
    DUPLICATE = "duplicate"
    """A message arrives twice, the second time a little later."""
    DELAY = "delay"
    """A message arrives much later."""
    REORDER = "reorder"
    """A message arrives after messages that were sent later."""
    CORRUPT = "corrupt"
    """Up to three bits of a message flip."""
    UNPLUG = "unplug"
    """The phone is taken off its charger while it trains."""
    SLOW = "slow"
    """A phone always trains several times slower than others."""
    PHONE_DISK_FULL = "phone-disk-full"
    """The disk of a phone is full for some minutes."""
    COORDINATOR_DISK_FULL = "coordinator-disk-full"
    """The disk of the coordinator is full for some seconds."""
    POWER_CUT = "power-cut"
    """A phone loses power: at a random moment, or between two writes."""
    COORDINATOR_RESTART = "coordinator-restart"
    """The coordinator is killed: at a random moment of a phase, or while it handles an event."""
    BROKER_RESTART = "broker-restart"
    """The broker is killed and restarts with its sessions and retained messages."""
    BROKER_AMNESIA = "broker-amnesia"
    """The broker is killed and restarts with empty state."""
    PHONE_CLOCK_JUMP = "phone-clock-jump"
    """The wall clock of a phone jumps."""
    COORDINATOR_CLOCK_JUMP = "coordinator-clock-jump"
    """The wall clock of the coordinator jumps."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate of a fault."""

    chance: float  # probability at each opportunity
    each: str  # the opportunity
    reason: str  # of the probability, or its source


_MESSAGE, _STATE, _PHASE = "message", "state that a phone enters", "phase that a round enters"

RATES = {
    SimulatedFault.DROP: Rate(
        0.004,
        _MESSAGE,
        "stock brokers lost 79 % of a burst of 5,000 reports",
    ),
    SimulatedFault.DUPLICATE: Rate(
        0.01, _MESSAGE, "QoS 1 repeats after a lost connection; phones change networks hourly"
    ),
    SimulatedFault.DELAY: Rate(0.01, _MESSAGE, "up to two minutes: a phone sleeps"),
    SimulatedFault.REORDER: Rate(0.01, _MESSAGE, "up to a second: messages are sent again"),
    SimulatedFault.CORRUPT: Rate(0.001, _MESSAGE, "far above TCP's one in ten million, so that it happens"),
    SimulatedFault.UNPLUG: Rate(
        0.14,
        "training",
        "with windows that close, 10 % of a cohort drop out (Bonawitz et al. 2019: 6 to 10)",
    ),
    SimulatedFault.SLOW: Rate(0.05, "phone, once", "an old phone: six times slower for ever"),
    SimulatedFault.PHONE_DISK_FULL: Rate(0.002, _STATE, "one phone in a hundred during a round"),
    SimulatedFault.POWER_CUT: Rate(0.003, _STATE, "an empty battery, a killed process"),
    SimulatedFault.PHONE_CLOCK_JUMP: Rate(0.002, _STATE, "a reboot without network"),
    SimulatedFault.COORDINATOR_RESTART: Rate(0.04, _PHASE, "six in fifty rounds: several releases a day"),
    SimulatedFault.COORDINATOR_DISK_FULL: Rate(0.01, _PHASE, "one or two in fifty rounds"),
    SimulatedFault.COORDINATOR_CLOCK_JUMP: Rate(0.01, _PHASE, "one or two in fifty rounds"),
    SimulatedFault.BROKER_RESTART: Rate(0.01, _PHASE, "one or two in fifty rounds"),
    SimulatedFault.BROKER_AMNESIA: Rate(0.01, _PHASE, "one or two in fifty rounds: a container without a volume"),
}
"""Rate of each fault; unmeasured ones happen a few times in fifty rounds."""

MOST = 0.5
"""Maximum probability at any severity: a fault at every opportunity would leave nothing to observe."""

MESSAGE_FAULTS = (
    SimulatedFault.DROP,
    SimulatedFault.DUPLICATE,
    SimulatedFault.DELAY,
    SimulatedFault.REORDER,
    SimulatedFault.CORRUPT,
)
PHONE_FAULTS = (SimulatedFault.PHONE_DISK_FULL, SimulatedFault.POWER_CUT, SimulatedFault.PHONE_CLOCK_JUMP)
PHASE_FAULTS = (
    SimulatedFault.COORDINATOR_RESTART,
    SimulatedFault.COORDINATOR_DISK_FULL,
    SimulatedFault.COORDINATOR_CLOCK_JUMP,
    SimulatedFault.BROKER_RESTART,
    SimulatedFault.BROKER_AMNESIA,
)

STATES = ("ineligible", "settling", "checked-in", "preparing", "training", "finishing", "reporting", "resting")
"""States of a phone's lifecycle, as places of faults."""
PHASES = ("selection", "reporting", "committing")
"""Phases of an open round, as places of faults."""
PLACES = {
    fault.value: ("", *STATES) if fault in PHONE_FAULTS else ("", *PHASES) if fault in PHASE_FAULTS else ("",)
    for fault in SimulatedFault
}
"""Places to which each fault may be limited; the empty place means everywhere."""


class PowerCut(BaseException):
    """Ends the simulated process at this point; only the simulator may catch it."""


@dataclass(slots=True)
class Fuse:
    """Cuts the power after ``left`` accesses to a store; with None, no cut is planned."""

    left: int | None = None

    def touch(self) -> None:
        """Count an access to a store.

        Raises:
            PowerCut: this is the last access.
        """
        if self.left is None:
            return
        self.left -= 1
        if self.left <= 0:
            self.left = None
            raise PowerCut


@dataclass(frozen=True, slots=True, order=True)
class Danger:
    """A fault that may happen."""

    fault: str  # name of the fault
    where: str = ""  # the only lifecycle state or phase in which it may happen; empty for any

    def __str__(self) -> str:
        """The form of the command line."""
        return f"{self.fault}:{self.where}" if self.where else self.fault


def dangers(text: str) -> frozenset[Danger]:
    """Parse the faults of a command line: ``none``, ``all``, or comma-separated names, optionally with a place.

    >>> sorted(map(str, dangers("drop,power-cut:training")))
    ['drop', 'power-cut:training']

    Raises:
        ConfigError: an unknown name, or a place that the fault does not have.
    """
    if text in {"none", "all"}:
        return frozenset(Danger(fault.value) for fault in SimulatedFault if text == "all")
    chosen = frozenset(Danger(*name.strip().split(":", 1)) for name in text.split(","))
    unknown = sorted(str(danger) for danger in chosen if danger.where not in PLACES.get(danger.fault, ()))
    if unknown:
        msg = (
            f"--faults: expected none, all or some of {', '.join(PLACES)}; phone faults may be limited to a state "
            f"({', '.join(STATES)}), coordinator and broker faults to a phase ({', '.join(PHASES)}), for example "
            f"power-cut:training; got {', '.join(unknown)}"
        )
        raise ConfigError(msg)
    return chosen


class Dice:
    """Draws the faults that may happen; ``severity`` multiplies every rate."""

    def __init__(self, chosen: Iterable[Danger], severity: float, generator: np.random.Generator) -> None:
        self._where: dict[SimulatedFault, set[str]] = {}
        for danger in chosen:
            self._where.setdefault(SimulatedFault(danger.fault), set()).add(danger.where)
        self._rates = {
            fault: min(MOST, severity * rate.chance) if fault in self._where else 0.0 for fault, rate in RATES.items()
        }
        self._generator = generator
        self._random = generator.random
        self.thrown: Counter[str] = Counter()  # faults so far, by name and place

    def strikes(self, fault: SimulatedFault, where: str = "") -> bool:
        """Whether a fault happens at this opportunity; the caller reports it with :meth:`note`."""
        rate = self._rates[fault]
        if rate == 0.0 or self._random() >= rate:
            return False
        return "" in self._where[fault] or where in self._where[fault]

    def one_of(self, faults: Iterable[SimulatedFault], where: str = "") -> SimulatedFault | None:
        """The first of these faults that happens, if one does."""
        if not self._where:  # fast path, called for millions of messages
            return None
        return next((fault for fault in faults if self.strikes(fault, where)), None)

    def note(self, fault: SimulatedFault, where: str = "") -> None:
        """Count a fault that was carried out."""
        self.thrown[str(Danger(fault.value, where))] += 1

    def rest(self) -> None:
        """Stop all faults from now on."""
        self._rates = dict.fromkeys(SimulatedFault, 0.0)

    def between(self, low: float, high: float) -> float:
        """A uniformly drawn number."""
        return low + (high - low) * float(self._random())

    def within(self, low: int, high: int) -> int:
        """A uniformly drawn integer from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def flipped(self, payload: bytes) -> bytes:
        """The payload with up to three flipped bits."""
        damaged = bytearray(payload)
        for _ in range(self.within(1, 3)):
            if damaged:
                damaged[self.within(0, len(damaged) - 1)] ^= 1 << self.within(0, 7)
        return bytes(damaged)
