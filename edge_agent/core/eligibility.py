"""May this device train now? Readings of its conditions become a verdict with a reason, and verdicts become a standing.

Two questions, kept apart:

- *Now*: :func:`judge` looks at one set of readings. A reading may be unknown; whether that blocks depends on what is
  unknown. A phone that cannot say whether it charges must not train; a board without a thermometer may.
- *For long enough*: :func:`settle` asks for an unbroken run of eligible verdicts (hysteresis). A phone picked at the
  moment it becomes eligible finishes a 3-minute job with probability 0.50, after two minutes with 0.80, on real traces.

Does not read anything itself: adapters do. Does not decide what to do about it: :mod:`edge_agent.core.lifecycle` does.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from wire.messages import DropoutCause


class Condition(enum.Enum):
    """What must hold for a device to train, in the order in which a reason is looked for."""

    CHARGING = "charging"
    IDLE = "idle"
    UNMETERED = "unmetered"
    BATTERY_HIGH = "battery-high"
    COOL = "cool"
    HAS_EXAMPLES = "has-examples"


class Answer(enum.Enum):
    """Does the condition hold?"""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source says about one condition.

    Attributes:
        value: does the condition hold?
        source: who says so, such as ``/sys/class/power_supply/BAT0``.
        reason: for a person, such as ``discharging``. Without figures that change all the time: a new reason is news.
        age_s: seconds since the source said so.
    """

    value: Answer
    source: str
    reason: str
    age_s: float = 0.0


Readings = Mapping[Condition, Reading]
"""A condition that is not in it is unknown."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the device may train at this moment.

    Attributes:
        eligible: every condition holds, or is unknown and may be.
        reason: for a person; always given.
        cause: what a round that is under way is given up for; None if eligible.
    """

    eligible: bool
    reason: str
    cause: DropoutCause | None


class Standing(enum.Enum):
    """What a run of verdicts amounts to."""

    UNFIT = "unfit"
    """Not eligible."""
    SETTLING = "settling"
    """Eligible, but not for long enough."""
    FIT = "fit"
    """Eligible for the whole hysteresis time."""


@dataclass(frozen=True, slots=True)
class _Rule:
    cause: DropoutCause
    unknown_blocks: bool


_RULES = {
    Condition.CHARGING: _Rule(DropoutCause.UNPLUGGED, unknown_blocks=True),
    # Without any sign of use a headless board is idle; without any sign of charging a phone is not charging.
    Condition.IDLE: _Rule(DropoutCause.IN_USE, unknown_blocks=False),
    Condition.UNMETERED: _Rule(DropoutCause.METERED, unknown_blocks=True),
    Condition.BATTERY_HIGH: _Rule(DropoutCause.LOW_BATTERY, unknown_blocks=False),
    # A missing thermometer must not block for ever (BOINC learned that in the field).
    Condition.COOL: _Rule(DropoutCause.TOO_HOT, unknown_blocks=False),
    Condition.HAS_EXAMPLES: _Rule(DropoutCause.NO_EXAMPLES, unknown_blocks=True),
}

STALE_AFTER_S = 60.0
"""An older reading says nothing about now."""


def judge(readings: Readings) -> Verdict:
    """Decide on one set of readings.

    >>> judge({c: Reading(Answer.YES, "test", "yes") for c in Condition})
    Verdict(eligible=True, reason='all conditions hold', cause=None)
    >>> judge({}).reason
    'charging: unknown (no source)'

    Args:
        readings: condition -> reading.

    Returns:
        The verdict; a blocking one names the first condition that blocks.
    """
    for condition, rule in _RULES.items():
        reading = readings.get(condition)
        if reading is None:
            value, reason = Answer.UNKNOWN, "no source"
        elif reading.age_s > STALE_AFTER_S:
            value, reason = Answer.UNKNOWN, "the last reading is too old"
        else:
            value, reason = reading.value, reading.reason
        match value:
            case Answer.NO:
                return Verdict(False, reason, rule.cause)
            case Answer.UNKNOWN if rule.unknown_blocks:
                return Verdict(False, f"{condition.value}: unknown ({reason})", rule.cause)
            case Answer.YES | Answer.UNKNOWN:
                pass
    return Verdict(True, "all conditions hold", None)


def settle(
    eligible_since_s: float | None, verdict: Verdict, now_s: float, hysteresis_s: float
) -> tuple[float | None, Standing]:
    """Ask for an unbroken run of eligible verdicts.

    >>> yes = Verdict(True, "", None)
    >>> settle(None, yes, 100.0, 120.0)
    (100.0, <Standing.SETTLING: 'settling'>)
    >>> settle(100.0, yes, 220.0, 120.0)
    (100.0, <Standing.FIT: 'fit'>)

    Args:
        eligible_since_s: beginning of the present run; None if there is none.
        verdict: the newest one.
        now_s: when it was given, on a clock that does not jump.
        hysteresis_s: how long the run must last.

    Returns:
        The beginning of the run that the next call takes, and the standing.
    """
    if not verdict.eligible:
        return None, Standing.UNFIT
    since_s = now_s if eligible_since_s is None else eligible_since_s
    return since_s, Standing.FIT if now_s - since_s >= hysteresis_s else Standing.SETTLING


def battery_reading(level: float | None, minimum: float, source: str) -> Reading:
    """Is the battery full enough?

    >>> battery_reading(0.12, 0.3, "BAT0").reason
    'battery below 30 %'

    Args:
        level: share of a full battery, 0 to 1; None if not known.
        minimum: the least that allows training.
        source: who said so.
    """
    if level is None:
        return Reading(Answer.UNKNOWN, source, "battery level not known")
    if level < minimum:
        return Reading(Answer.NO, source, f"battery below {100 * minimum:.0f} %")
    return Reading(Answer.YES, source, f"battery at {100 * level:.0f} %")


def heat_reading(temperature_c: float | None, maximum_c: float, source: str) -> Reading:
    """Is it cool enough?

    >>> heat_reading(47.5, 45.0, "BAT0").reason
    'too hot: above 45 C'

    Args:
        temperature_c: degrees Celsius; None if there is no thermometer.
        maximum_c: the most that allows training.
        source: who said so.
    """
    if temperature_c is None:
        return Reading(Answer.UNKNOWN, source, "no thermometer")
    if temperature_c > maximum_c:
        return Reading(Answer.NO, source, f"too hot: above {maximum_c:.0f} C")
    return Reading(Answer.YES, source, f"{temperature_c:.1f} C")
