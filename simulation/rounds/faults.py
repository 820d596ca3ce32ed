"""What can go wrong, how often, and the dice that decide it.

Rates are those of the field where somebody measured them, and else so high that every fault happens a few times in
fifty rounds. All dice are of one seeded generator, so the same seed brings the same troubles at the same moments.

Drawn here, carried out where it hurts: messages in :mod:`~simulation.rounds.broker`, phones in
:mod:`~simulation.rounds.phone`, the coordinator in :mod:`~simulation.rounds.coordinator`.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wire.errors import ConfigError


class Fault(enum.Enum):
    """Something that goes wrong."""

    DROP = "drop"
    """A message vanishes, although its publisher was told that it arrived."""
    DUPLICATE = "duplicate"
    """A message comes twice, the second time a little later."""
    DELAY = "delay"
    """A message comes much later."""
    REORDER = "reorder"
    """A message is overtaken by those that were sent after it."""
    CORRUPT = "corrupt"
    """Up to three bits of a message flip."""
    UNPLUG = "unplug"
    """Somebody takes the phone off its charger while it trains."""
    SLOW = "slow"
    """A phone trains several times slower than others; it stays so."""
    PHONE_DISK_FULL = "phone-disk-full"
    """For some minutes a phone can store nothing."""
    COORDINATOR_DISK_FULL = "coordinator-disk-full"
    """For some seconds the coordinator can store nothing."""
    POWER_CUT = "power-cut"
    """A phone loses its power: at a random moment, or in the middle of writing."""
    COORDINATOR_RESTART = "coordinator-restart"
    """The coordinator is killed: at a random moment of a phase, or in the middle of handling an event."""
    BROKER_RESTART = "broker-restart"
    """The broker is killed and comes back with its sessions and retained messages."""
    BROKER_AMNESIA = "broker-amnesia"
    """The broker is killed and comes back with nothing."""
    PHONE_CLOCK_JUMP = "phone-clock-jump"
    """The wall clock of a phone is set to another time."""
    COORDINATOR_CLOCK_JUMP = "coordinator-clock-jump"
    """The wall clock of the coordinator is set to another time."""


RATES = {
    # For each message. Brokers lose messages in bursts when a queue is full; on average it is far less than this.
    Fault.DROP: 0.004,
    # QoS 1 repeats what was on its way when a connection broke: phones change networks about hourly.
    Fault.DUPLICATE: 0.01,
    Fault.DELAY: 0.01,
    Fault.REORDER: 0.01,
    # TCP lets one wrong segment in ten million through; this is so high that it happens at all.
    Fault.CORRUPT: 0.001,
    # For each training; makes 10 % of all cohorts with the windows that close by themselves (Bonawitz et al.: 6 to 10).
    Fault.UNPLUG: 0.07,
    # For each phone, once. The slowest twentieth of phones on the market is five to ten years old.
    Fault.SLOW: 0.05,
    # For each state that a phone enters. A percent of phones has a full disk at any time.
    Fault.PHONE_DISK_FULL: 0.002,
    Fault.POWER_CUT: 0.003,
    Fault.PHONE_CLOCK_JUMP: 0.002,
    # For each phase that a round enters. A team that deploys several times a day, and a little worse.
    Fault.COORDINATOR_RESTART: 0.04,
    Fault.COORDINATOR_DISK_FULL: 0.01,
    Fault.COORDINATOR_CLOCK_JUMP: 0.01,
    Fault.BROKER_RESTART: 0.01,
    Fault.BROKER_AMNESIA: 0.01,
}
"""Chance of each fault at each opportunity."""

MOST = 0.5
"""However severe: a fault at every opportunity leaves nothing to look at."""

MESSAGE_FAULTS = (Fault.DROP, Fault.DUPLICATE, Fault.DELAY, Fault.REORDER, Fault.CORRUPT)
PHONE_FAULTS = (Fault.PHONE_DISK_FULL, Fault.POWER_CUT, Fault.PHONE_CLOCK_JUMP)
PHASE_FAULTS = (
    Fault.COORDINATOR_RESTART,
    Fault.COORDINATOR_DISK_FULL,
    Fault.COORDINATOR_CLOCK_JUMP,
    Fault.BROKER_RESTART,
    Fault.BROKER_AMNESIA,
)

STATES = ("ineligible", "settling", "checked-in", "preparing", "training", "reporting", "resting")
"""Of a phone's lifecycle, as faults name them."""
PHASES = ("selection", "reporting", "committing")
"""Of a round that is not over."""
PLACES = {
    fault.value: ("", *STATES) if fault in PHONE_FAULTS else ("", *PHASES) if fault in PHASE_FAULTS else ("",)
    for fault in Fault
}
"""Where each fault may be asked for; the empty place is everywhere."""


class PowerCut(BaseException):
    """The process ends here, in the middle of what it does; nothing catches it but who pulled the plug."""


@dataclass(slots=True)
class Fuse:
    """Cuts the power at a touch of a store that was drawn beforehand.

    Attributes:
        left: touches until then; None if it is not lit.
    """

    left: int | None = None

    def touch(self) -> None:
        """Something is about to be written.

        Raises:
            PowerCut: now.
        """
        if self.left is None:
            return
        self.left -= 1
        if self.left <= 0:
            self.left = None
            raise PowerCut


@dataclass(frozen=True, slots=True, order=True)
class Danger:
    """A fault that may happen.

    Attributes:
        fault: its name.
        where: the only lifecycle state or phase in which it may; empty for any.
    """

    fault: str
    where: str = ""

    def __str__(self) -> str:
        """As on the command line."""
        return f"{self.fault}:{self.where}" if self.where else self.fault


def dangers(text: str) -> frozenset[Danger]:
    """The faults of a command line: ``none``, ``all``, or names with commas between them, each perhaps with a place.

    >>> sorted(map(str, dangers("drop,power-cut:training")))
    ['drop', 'power-cut:training']

    Raises:
        ConfigError: a name that is none, or a place for a fault that has none.
    """
    if text in {"none", "all"}:
        return frozenset(Danger(fault.value) for fault in Fault if text == "all")
    chosen = frozenset(Danger(*name.strip().split(":", 1)) for name in text.split(","))
    unknown = sorted(str(danger) for danger in chosen if danger.where not in PLACES.get(danger.fault, ()))
    if unknown:
        msg = (
            f"--faults: expected none, all or some of {', '.join(PLACES)} (those of phones also with :state, those of "
            f"coordinator and broker with :phase, such as power-cut:training); got {', '.join(unknown)}"
        )
        raise ConfigError(msg)
    return chosen


class Dice:
    """Decides what goes wrong.

    Args:
        chosen: what may happen.
        severity: multiplies every rate.
        generator: of this simulation's faults only.

    Attributes:
        thrown: how often each fault has happened, by name and place.
    """

    def __init__(self, chosen: Iterable[Danger], severity: float, generator: np.random.Generator) -> None:
        self._where: dict[Fault, set[str]] = {}
        for danger in chosen:
            self._where.setdefault(Fault(danger.fault), set()).add(danger.where)
        self._rates = {
            fault: min(MOST, severity * rate) if fault in self._where else 0.0 for fault, rate in RATES.items()
        }
        self._generator = generator
        self._random = generator.random
        self.thrown: Counter[str] = Counter()

    def strikes(self, fault: Fault, where: str = "") -> bool:
        """Whether a fault happens at this opportunity; whoever carries it out says so with :meth:`note`."""
        rate = self._rates[fault]
        if rate == 0.0 or self._random() >= rate:
            return False
        return "" in self._where[fault] or where in self._where[fault]

    def one_of(self, faults: Iterable[Fault], where: str = "") -> Fault | None:
        """The first of these faults that happens, if one does."""
        if not self._where:  # millions of messages ask
            return None
        return next((fault for fault in faults if self.strikes(fault, where)), None)

    def note(self, fault: Fault, where: str = "") -> None:
        """A fault was carried out."""
        self.thrown[str(Danger(fault.value, where))] += 1

    def rest(self) -> None:
        """From now on nothing goes wrong."""
        self._rates = dict.fromkeys(Fault, 0.0)

    def between(self, low: float, high: float) -> float:
        """A number, evenly drawn."""
        return low + (high - low) * float(self._random())

    def within(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def flipped(self, payload: bytes) -> bytes:
        """The payload with up to three bits the other way."""
        damaged = bytearray(payload)
        for _ in range(self.within(1, 3)):
            if damaged:
                damaged[self.within(0, len(damaged) - 1)] ^= 1 << self.within(0, 7)
        return bytes(damaged)
