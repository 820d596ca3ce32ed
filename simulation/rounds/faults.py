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


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a fault happens in the field.

    Attributes:
        chance: at each opportunity.
        each: the opportunity.
        reason: why this chance, and who measured it.
    """

    chance: float
    each: str
    reason: str


_MESSAGE, _STATE, _PHASE = "message", "state that a phone enters", "phase that a round enters"

RATES = {
    Fault.DROP: Rate(
        0.004,
        _MESSAGE,
        "stock brokers lost 79 % of a burst of 5,000 reports",
    ),
    Fault.DUPLICATE: Rate(0.01, _MESSAGE, "QoS 1 repeats after a lost connection; phones change networks hourly"),
    Fault.DELAY: Rate(0.01, _MESSAGE, "up to two minutes: a phone sleeps"),
    Fault.REORDER: Rate(0.01, _MESSAGE, "up to a second: messages are sent again"),
    Fault.CORRUPT: Rate(0.001, _MESSAGE, "far above TCP's one in ten million, so that it happens"),
    Fault.UNPLUG: Rate(
        0.14,
        "training",
        "with windows that close, 10 % of a cohort drop out (Bonawitz et al. 2019: 6 to 10)",
    ),
    Fault.SLOW: Rate(0.05, "phone, once", "an old phone: six times slower for ever"),
    Fault.PHONE_DISK_FULL: Rate(0.002, _STATE, "one phone in a hundred during a round"),
    Fault.POWER_CUT: Rate(0.003, _STATE, "an empty battery, a killed process"),
    Fault.PHONE_CLOCK_JUMP: Rate(0.002, _STATE, "a reboot without network"),
    Fault.COORDINATOR_RESTART: Rate(0.04, _PHASE, "six in fifty rounds: several releases a day"),
    Fault.COORDINATOR_DISK_FULL: Rate(0.01, _PHASE, "one or two in fifty rounds"),
    Fault.COORDINATOR_CLOCK_JUMP: Rate(0.01, _PHASE, "one or two in fifty rounds"),
    Fault.BROKER_RESTART: Rate(0.01, _PHASE, "one or two in fifty rounds"),
    Fault.BROKER_AMNESIA: Rate(0.01, _PHASE, "one or two in fifty rounds: a container without a volume"),
}
"""Of every fault. What nobody measured is chosen so that it happens some times in fifty rounds."""

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

STATES = ("ineligible", "settling", "checked-in", "preparing", "training", "finishing", "reporting", "resting")
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
            f"--faults: expected none, all or some of {', '.join(PLACES)}; those of phones perhaps with a state "
            f"({', '.join(STATES)}), those of coordinator and broker with a phase ({', '.join(PHASES)}), as in "
            f"power-cut:training; got {', '.join(unknown)}"
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
            fault: min(MOST, severity * rate.chance) if fault in self._where else 0.0 for fault, rate in RATES.items()
        }
        self._generator = generator
        self._random = generator.random
        self.thrown: Counter[str] = Counter()

    def strikes(self, fault: Fault, where: str = "") -> bool:
        """Whether a fault happens at this opportunity; the caller reports it with :meth:`note`."""
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
