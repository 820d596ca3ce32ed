"""May this device train now? Readings of its conditions become a verdict with a reason, and verdicts become a standing.

Two questions, kept apart:

- *Now*: :func:`judge` looks at one set of readings. A reading may be unknown; whether that blocks is a demand of the
  policy, condition by condition. A phone that cannot say whether it charges must not train; a board without a
  thermometer may.
- *For long enough*: :func:`settle` asks for an unbroken run of eligible verdicts (hysteresis). A phone picked at the
  moment it becomes eligible finishes a 3-minute job with probability 0.50, after two minutes with 0.80, on real traces.

Does not read anything itself: adapters do. Does not decide what to do about it: :mod:`edge_agent.core.lifecycle` does.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wire.messages import DropoutCause


class Condition(enum.Enum):
    """What must hold for a device to train, in the order in which a reason is looked for."""

    WANTED = "wanted"
    CHARGING = "charging"
    IDLE = "idle"
    UNMETERED = "unmetered"
    BATTERY_HIGH = "battery-high"
    COOL = "cool"
    OUTSIDE_QUIET_HOURS = "outside-quiet-hours"
    STEADY_POWER = "steady-power"
    DISK_FREE = "disk-free"
    MEMORY_FREE = "memory-free"
    HAS_EXAMPLES = "has-examples"


class Answer(enum.Enum):
    """Does the condition hold?"""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ConditionReading:
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


Readings = Mapping[Condition, ConditionReading]
"""A condition that is not in it is unknown."""


@dataclass(frozen=True, slots=True)
class EligibilityVerdict:
    """Whether the device may train at this moment.

    Attributes:
        eligible: every condition holds, or is unknown and may be.
        reason: for a person; always given.
        cause: what a round that is under way is given up for; None if eligible.
    """

    eligible: bool
    reason: str
    cause: DropoutCause | None


class EligibilityRun(enum.Enum):
    """What a run of verdicts amounts to."""

    UNFIT = "unfit"
    """Not eligible."""
    SETTLING = "settling"
    """Eligible, but not for long enough."""
    FIT = "fit"
    """Eligible for the whole hysteresis time."""


class Demand(enum.Enum):
    """How strictly a condition is asked for."""

    REQUIRED = "required"
    """It must be known to hold."""
    UNLESS_UNKNOWN = "unless-unknown"
    """It must not be known not to hold."""
    IGNORED = "ignored"
    """It is shown, and decides nothing."""


CAUSES = {
    Condition.WANTED: DropoutCause.PAUSED,
    Condition.CHARGING: DropoutCause.UNPLUGGED,
    Condition.IDLE: DropoutCause.IN_USE,
    Condition.UNMETERED: DropoutCause.METERED,
    Condition.BATTERY_HIGH: DropoutCause.LOW_BATTERY,
    Condition.COOL: DropoutCause.TOO_HOT,
    Condition.OUTSIDE_QUIET_HOURS: DropoutCause.QUIET_HOURS,
    Condition.STEADY_POWER: DropoutCause.UNDER_VOLTAGE,
    Condition.DISK_FREE: DropoutCause.LOW_RESOURCES,
    Condition.MEMORY_FREE: DropoutCause.LOW_RESOURCES,
    Condition.HAS_EXAMPLES: DropoutCause.NO_EXAMPLES,
}
"""What a round that is under way is given up for when a condition is lost."""

Policy = Mapping[Condition, Demand]
"""How strictly each condition is asked for; one that is not in it is required."""

DEFAULT_POLICY: Policy = {
    # A person's word. Who cannot be asked (the database does not answer) has not agreed.
    Condition.WANTED: Demand.REQUIRED,
    # Without any sign of charging a phone is not charging.
    Condition.CHARGING: Demand.REQUIRED,
    # Without any sign of use a headless board is idle.
    Condition.IDLE: Demand.UNLESS_UNKNOWN,
    # Money for metered traffic is spent for good.
    Condition.UNMETERED: Demand.REQUIRED,
    # Many drivers give no level or a bogus 0 %; charging is asked for anyway.
    Condition.BATTERY_HIGH: Demand.UNLESS_UNKNOWN,
    # A missing thermometer must not block for ever (BOINC learned that in the field).
    Condition.COOL: Demand.UNLESS_UNKNOWN,
    # A board without a clock of its own does not know the hour until it has a network.
    Condition.OUTSIDE_QUIET_HOURS: Demand.UNLESS_UNKNOWN,
    # Only a Raspberry Pi says it.
    Condition.STEADY_POWER: Demand.UNLESS_UNKNOWN,
    # A file system or kernel that does not say how much is free is no reason; running out is answered where it happens.
    Condition.DISK_FREE: Demand.UNLESS_UNKNOWN,
    Condition.MEMORY_FREE: Demand.UNLESS_UNKNOWN,
    # Nothing to train on is known for certain.
    Condition.HAS_EXAMPLES: Demand.REQUIRED,
}

STALE_AFTER_S = 60.0
"""An older reading says nothing about now."""


def judge(readings: Readings, policy: Policy = DEFAULT_POLICY) -> EligibilityVerdict:
    """Decide on one set of readings.

    >>> judge({c: ConditionReading(Answer.YES, "test", "yes") for c in Condition})
    EligibilityVerdict(eligible=True, reason='all conditions hold', cause=None)
    >>> judge({}).reason
    'wanted: unknown (no source)'

    Args:
        readings: condition -> reading.
        policy: how strictly each is asked for.

    Returns:
        The verdict; a blocking one names the first condition that blocks.
    """
    for condition in Condition:
        demand, reading = policy.get(condition, Demand.REQUIRED), fresh(readings.get(condition))
        match demand, reading.value:
            case ((Demand.REQUIRED | Demand.UNLESS_UNKNOWN), Answer.NO):
                return EligibilityVerdict(False, reading.reason, CAUSES[condition])
            case Demand.REQUIRED, Answer.UNKNOWN:
                return EligibilityVerdict(False, f"{condition.value}: unknown ({reading.reason})", CAUSES[condition])
            case _:
                pass
    return EligibilityVerdict(True, "all conditions hold", None)


def fresh(reading: ConditionReading | None) -> ConditionReading:
    """A reading as it counts now: one that is missing or too old says nothing.

    >>> fresh(ConditionReading(Answer.YES, "BAT0", "charging", age_s=61.0)).reason
    'the last reading is too old'
    """
    if reading is None:
        return ConditionReading(Answer.UNKNOWN, "nobody", "no source")
    if reading.age_s > STALE_AFTER_S:
        return ConditionReading(Answer.UNKNOWN, reading.source, "the last reading is too old", reading.age_s)
    return reading


def settle(
    eligible_since_s: float | None, verdict: EligibilityVerdict, now_s: float, hysteresis_s: float
) -> tuple[float | None, EligibilityRun]:
    """Ask for an unbroken run of eligible verdicts.

    >>> yes = EligibilityVerdict(True, "", None)
    >>> settle(None, yes, 100.0, 120.0)
    (100.0, <EligibilityRun.SETTLING: 'settling'>)
    >>> settle(100.0, yes, 220.0, 120.0)
    (100.0, <EligibilityRun.FIT: 'fit'>)

    Args:
        eligible_since_s: beginning of the present run; None if there is none.
        verdict: the newest one.
        now_s: when it was given, on a clock that does not jump.
        hysteresis_s: how long the run must last.

    Returns:
        The beginning of the run that the next call takes, and the standing.
    """
    if not verdict.eligible:
        return None, EligibilityRun.UNFIT
    since_s = now_s if eligible_since_s is None else eligible_since_s
    return since_s, EligibilityRun.FIT if now_s - since_s >= hysteresis_s else EligibilityRun.SETTLING


def battery_reading(level: float | None, minimum: float, source: str) -> ConditionReading:
    """Is the battery full enough?

    >>> battery_reading(0.12, 0.3, "BAT0").reason
    'battery below 30 %'

    Args:
        level: share of a full battery, 0 to 1; None if not known.
        minimum: the least that allows training.
        source: who said so.
    """
    if level is None:
        return ConditionReading(Answer.UNKNOWN, source, "battery level not known")
    if level < minimum:
        return ConditionReading(Answer.NO, source, f"battery below {100 * minimum:.0f} %")
    return ConditionReading(Answer.YES, source, f"battery at {100 * level:.0f} %")


def heat_reading(temperature_c: float | None, maximum_c: float, source: str) -> ConditionReading:
    """Is it cool enough?

    >>> heat_reading(47.5, 45.0, "BAT0").reason
    'too hot: above 45 C'

    Args:
        temperature_c: degrees Celsius; None if there is no thermometer.
        maximum_c: the most that allows training.
        source: who said so.
    """
    if temperature_c is None:
        return ConditionReading(Answer.UNKNOWN, source, "no thermometer")
    if temperature_c > maximum_c:
        return ConditionReading(Answer.NO, source, f"too hot: above {maximum_c:.0f} C")
    return ConditionReading(Answer.YES, source, f"{temperature_c:.1f} C")


QuietSpan = tuple[int, int]
"""Begin and end in minutes since midnight; one that ends before it begins goes over midnight."""


def quiet_span(text: str) -> QuietSpan:
    """Read a span of the day.

    >>> quiet_span("22:30-07:00")
    (1350, 420)

    Raises:
        ValueError: not ``HH:MM-HH:MM``, or begin and end are the same.
    """
    begin, dash, end = text.partition("-")
    try:
        span = (_minute(begin), _minute(end))
    except ValueError:
        span = (0, 0)
    if not dash or span[0] == span[1]:
        msg = f'expected a span of the day such as "22:30-07:00", got {text[:40]!r}'
        raise ValueError(msg)
    return span


def _minute(text: str) -> int:
    hours, _, minutes = text.strip().partition(":")
    if not (len(hours) in (1, 2) and len(minutes) == 2 and int(hours) < 24 and int(minutes) < 60):
        raise ValueError(text)
    return 60 * int(hours) + int(minutes)


def quiet_reading(spans: Sequence[str], minute: int | None, source: str) -> ConditionReading:
    """Is it outside the hours in which the device must be left alone?

    >>> quiet_reading(["22:30-07:00"], 60, "clock").reason
    'quiet hours 22:30-07:00'
    >>> quiet_reading(["22:30-07:00"], 420, "clock").value
    <Answer.YES: 'yes'>

    Args:
        spans: as :func:`quiet_span` reads them.
        minute: of the local day; None if the clock cannot be trusted.
        source: who said what time it is.
    """
    if not spans:
        return ConditionReading(Answer.YES, "configuration", "no quiet hours")
    if minute is None:
        return ConditionReading(Answer.UNKNOWN, source, "the time of day is not known")
    for text in spans:
        begin, end = quiet_span(text)
        if begin <= minute < end if begin < end else minute >= begin or minute < end:
            return ConditionReading(Answer.NO, source, f"quiet hours {text}")
    return ConditionReading(Answer.YES, source, "outside quiet hours")
