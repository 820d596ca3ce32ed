"""Decides whether this device may train now: turns readings of its conditions into a verdict and a run of verdicts.

It answers two separate questions:

- *Now*: :func:`judge` looks at one set of readings. A reading may be unknown; the policy says for each condition
  whether that blocks. A phone that cannot tell whether it is charging must not train; a board without a thermometer
  may.
- *For long enough*: :func:`apply_hysteresis` requires an unbroken run of eligible verdicts. On real traces, a phone
  selected at the moment it becomes eligible finishes a 3-minute job with probability 0.50; after two minutes, 0.80.

Adapters take the readings. :mod:`nightjar.edge_agent.core.lifecycle` decides what to do about the run.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nightjar.models.source import NO_EXAMPLES
from nightjar.wire.messages import DropoutCause


class Condition(enum.Enum):
    """A condition for training, in the order in which a blocking reason is looked for."""

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
    """Whether a condition holds."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ConditionReading:
    """What one source reports about one condition.

    Attributes:
        value: whether the condition holds.
        source: where the reading comes from, such as ``/sys/class/power_supply/BAT0``.
        reason: text for people, such as ``discharging``. It must not contain figures that change all the time, because
            each new reason is published.
        age_s: age of the reading in seconds.
    """

    value: Answer
    source: str
    reason: str
    age_s: float = 0.0


def yes_or_no(holds: bool, source: str, yes: str, no: str, age_s: float = 0.0) -> ConditionReading:
    """The reading of a condition that is known to hold or not, with the reason for either."""
    return ConditionReading(Answer.YES, source, yes, age_s) if holds else ConditionReading(Answer.NO, source, no, age_s)


Readings = Mapping[Condition, ConditionReading]
"""Readings by condition; a missing condition is unknown."""


def is_met(readings: Readings, condition: Condition) -> bool:
    """Whether a condition is known to hold."""
    return condition in readings and readings[condition].value is Answer.YES


def examples_reading(count: int, task_types: Sequence[str]) -> ConditionReading:
    """Whether there is something to learn from.

    Examples that cannot be used count: a device with nothing else checks in, so that the coordinator counts why.
    ``task_types`` are those of :meth:`nightjar.edge_agent.ports.ExampleStore.task_types`.
    """
    problems = {each.partition(":")[2] for each in task_types} - {"", NO_EXAMPLES}
    return yes_or_no(count > 0 or bool(problems), "example store", "has examples", "no examples yet")


@dataclass(frozen=True, slots=True)
class EligibilityVerdict:
    """Whether the device may train now, and why (never empty); ``cause`` would end a round, and is None if eligible."""

    eligible: bool
    reason: str
    cause: DropoutCause | None


class EligibilityRun(enum.Enum):
    """How far a run of eligible verdicts is."""

    UNFIT = "unfit"
    """Not eligible."""
    SETTLING = "settling"
    """Eligible, but not for long enough."""
    FIT = "fit"
    """Eligible for the whole hysteresis time."""


class Demand(enum.Enum):
    """How strictly a condition is required."""

    REQUIRED = "required"
    """The condition must be known to hold."""
    UNLESS_UNKNOWN = "unless-unknown"
    """The condition may be unknown, but must not be known to fail."""
    IGNORED = "ignored"
    """The condition is shown but has no effect."""


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
"""Dropout cause of a round in progress when a condition is lost."""

Policy = Mapping[Condition, Demand]
"""How strictly each condition is required; a missing condition is required."""

DEFAULT_POLICY: Policy = {
    # The user's choice. If it cannot be read (the database does not answer), the user has not agreed.
    Condition.WANTED: Demand.REQUIRED,
    # A phone without any sign of charging is not charging.
    Condition.CHARGING: Demand.REQUIRED,
    # A headless board without any sign of use is idle.
    Condition.IDLE: Demand.UNLESS_UNKNOWN,
    # Money spent on metered traffic cannot be recovered.
    Condition.UNMETERED: Demand.REQUIRED,
    # Many drivers report no level or a bogus 0 %; charging is required anyway.
    Condition.BATTERY_HIGH: Demand.UNLESS_UNKNOWN,
    # A missing thermometer must not block for ever (a lesson of BOINC in the field).
    Condition.COOL: Demand.UNLESS_UNKNOWN,
    # A board without a real-time clock does not know the time until it has a network.
    Condition.OUTSIDE_QUIET_HOURS: Demand.UNLESS_UNKNOWN,
    # Only a Raspberry Pi reports this.
    Condition.STEADY_POWER: Demand.UNLESS_UNKNOWN,
    # A file system or kernel that does not report free space must not block; running out is handled where it happens.
    Condition.DISK_FREE: Demand.UNLESS_UNKNOWN,
    Condition.MEMORY_FREE: Demand.UNLESS_UNKNOWN,
    # This is always known.
    Condition.HAS_EXAMPLES: Demand.REQUIRED,
}

STALE_AFTER_S = 60.0
"""Age above which a reading counts as unknown."""


def judge(readings: Readings, policy: Policy = DEFAULT_POLICY) -> EligibilityVerdict:
    """Decide on one set of readings.

    >>> judge({c: ConditionReading(Answer.YES, "test", "yes") for c in Condition})
    EligibilityVerdict(eligible=True, reason='all conditions hold', cause=None)
    >>> judge({}).reason
    'wanted: unknown (no source)'

    Returns:
        The verdict; if it blocks, it names the first condition that blocks.
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
    """The reading as it counts now: a missing reading, or one that is too old, counts as unknown.

    >>> fresh(ConditionReading(Answer.YES, "BAT0", "charging", age_s=61.0)).reason
    'the last reading is too old'
    """
    if reading is None:
        return ConditionReading(Answer.UNKNOWN, "nobody", "no source")
    if reading.age_s > STALE_AFTER_S:
        return ConditionReading(Answer.UNKNOWN, reading.source, "the last reading is too old", reading.age_s)
    return reading


def apply_hysteresis(
    eligible_since_s: float | None, verdict: EligibilityVerdict, now_s: float, hysteresis_s: float
) -> tuple[float | None, EligibilityRun]:
    """Update the run of eligible verdicts, and say how far it is.

    >>> yes = EligibilityVerdict(True, "", None)
    >>> apply_hysteresis(None, yes, 100.0, 120.0)
    (100.0, <EligibilityRun.SETTLING: 'settling'>)
    >>> apply_hysteresis(100.0, yes, 220.0, 120.0)
    (100.0, <EligibilityRun.FIT: 'fit'>)

    ``eligible_since_s`` is the start of the current run, None if there is none; ``now_s`` is on a clock that does not
    jump.

    Returns:
        The start of the run, to be passed to the next call, and how far it is.
    """
    if not verdict.eligible:
        return None, EligibilityRun.UNFIT
    since_s = now_s if eligible_since_s is None else eligible_since_s
    return since_s, EligibilityRun.FIT if now_s - since_s >= hysteresis_s else EligibilityRun.SETTLING


def battery_reading(level: float | None, minimum: float, source: str) -> ConditionReading:
    """Whether the battery level, 0 to 1, is high enough; None is not known.

    >>> battery_reading(0.12, 0.3, "BAT0").reason
    'battery below 30 %'
    """
    if level is None:
        return ConditionReading(Answer.UNKNOWN, source, "battery level not known")
    yes, no = f"battery at {100 * level:.0f} %", f"battery below {100 * minimum:.0f} %"
    return yes_or_no(level >= minimum, source, yes, no)


def heat_reading(temperature_c: float | None, maximum_c: float, source: str) -> ConditionReading:
    """Whether the temperature is low enough; None without a thermometer.

    >>> heat_reading(47.5, 45.0, "BAT0").reason
    'too hot: above 45 C'
    """
    if temperature_c is None:
        return ConditionReading(Answer.UNKNOWN, source, "no thermometer")
    return yes_or_no(temperature_c <= maximum_c, source, f"{temperature_c:.1f} C", f"too hot: above {maximum_c:.0f} C")


def quiet_span(text: str) -> tuple[int, int]:
    """Begin and end of a span of the day, in minutes since midnight; wraps around it if it ends before it begins.

    >>> quiet_span("22:30-07:00")
    (1350, 420)

    Raises:
        ValueError: the text is not ``HH:MM-HH:MM``, or begin and end are equal.
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
    """Whether a minute of the local day, None if the clock cannot be trusted, is outside the quiet hours.

    >>> quiet_reading(["22:30-07:00"], 60, "clock").reason
    'quiet hours 22:30-07:00'
    >>> quiet_reading(["22:30-07:00"], 420, "clock").value
    <Answer.YES: 'yes'>
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
