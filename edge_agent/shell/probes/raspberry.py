"""Probe for a Raspberry Pi's own warnings: under-voltage, and thermal throttling of the processor.

The kernel's ``rpi_volt`` sensor reports under-voltage at once; ``vcgencmd get_throttled``, where installed, reports
both.
"""

from __future__ import annotations

from pathlib import Path

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, yes_or_no
from nightjar.edge_agent.shell.probes.background import Background
from nightjar.edge_agent.shell.probes.command import Run, run
from nightjar.edge_agent.shell.probes.files import number, text

COMMAND = ("vcgencmd", "get_throttled")
EVERY_S = 15.0
TIMEOUT_S = 3.0

UNDER_VOLTAGE = 1 << 0
SLOWED_DOWN = 1 << 1 | 1 << 2 | 1 << 3
"""Frequency capped, throttled, soft temperature limit; bits 16 and up say that the condition occurred since boot."""


class Raspberry:
    """Probe for under-voltage and throttling. Returns no reading on other devices."""

    def __init__(self, root: Path, run: Run = run) -> None:
        self._root = root
        self._is_one = "Raspberry Pi" in text(root / "proc/device-tree/model")
        self.question = Background(lambda: throttled_bits(run(COMMAND, TIMEOUT_S)), EVERY_S)

    def __call__(self) -> Readings:
        """Take a reading now."""
        if not self._is_one:
            return {}
        readings: dict[Condition, ConditionReading] = {}
        latest = self.question.latest()
        source = " ".join(COMMAND)
        if latest.answer is not None:
            readings[Condition.STEADY_POWER] = _voltage(not latest.answer & UNDER_VOLTAGE, source, latest.age_s)
            if latest.answer & SLOWED_DOWN:
                readings[Condition.COOL] = ConditionReading(
                    Answer.NO, source, "too hot: slowed down by the firmware", latest.age_s
                )
        alarm = self._alarm()
        if alarm is not None and (alarm or Condition.STEADY_POWER not in readings):
            readings[Condition.STEADY_POWER] = _voltage(not alarm, "hwmon rpi_volt", 0.0)
        if Condition.STEADY_POWER not in readings:
            readings[Condition.STEADY_POWER] = ConditionReading(Answer.UNKNOWN, source, latest.reason)
        return readings

    def _alarm(self) -> bool | None:
        for sensor in self._root.glob("sys/class/hwmon/hwmon*"):
            if text(sensor / "name") == "rpi_volt":
                alarms = [number(path) for path in sensor.glob("in*_lcrit_alarm")]
                if any(alarm is not None for alarm in alarms):
                    return any(alarms)
        return None


def throttled_bits(output: str) -> int:
    """Parse the output of ``vcgencmd get_throttled``.

    >>> throttled_bits("throttled=0x50005")
    327685

    Raises:
        ValueError: the output has another form.
    """
    name, _, value = output.strip().partition("=")
    if name != "throttled":
        msg = "expected throttled=0x..."
        raise ValueError(msg)
    return int(value, 16)


def _voltage(steady: bool, source: str, age_s: float) -> ConditionReading:
    weak = "under-voltage: the power supply or its cable is too weak"
    return yes_or_no(steady, source, "the voltage is steady", weak, age_s)
