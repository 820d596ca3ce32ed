"""What only a Raspberry Pi says: too little voltage, and a processor that is slowed down for heat.

The kernel's ``rpi_volt`` sensor says the first at once; ``vcgencmd get_throttled`` says both where it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from edge_agent.shell.probes.background import Background
from edge_agent.shell.probes.command import Run, run
from edge_agent.shell.probes.files import number, text

COMMAND = ("vcgencmd", "get_throttled")
EVERY_S = 15.0
TIMEOUT_S = 3.0

UNDER_VOLTAGE = 1 << 0
SLOWED_DOWN = 1 << 1 | 1 << 2 | 1 << 3
"""Frequency capped, throttled, soft temperature limit; the bits from 16 on say that it was so once."""


class Raspberry:
    """A probe. Says nothing on other devices.

    Args:
        root: where ``sys`` is.
        run: runs programs.
        now_s: seconds on a clock that does not jump.
    """

    def __init__(self, root: Path, run: Run = run, now_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._is_one = "Raspberry Pi" in text(root / "proc/device-tree/model")
        self.question = Background(lambda: throttled_bits(run(COMMAND, TIMEOUT_S)), EVERY_S, now_s)

    def __call__(self) -> Readings:
        """Look now."""
        if not self._is_one:
            return {}
        found: dict[Condition, ConditionReading] = {}
        said = self.question.latest()
        source = " ".join(COMMAND)
        if said.answer is not None:
            steady, cool = not said.answer & UNDER_VOLTAGE, not said.answer & SLOWED_DOWN
            found[Condition.STEADY_POWER] = _voltage(steady, source, said.age_s)
            if not cool:
                found[Condition.COOL] = ConditionReading(
                    Answer.NO, source, "too hot: slowed down by the firmware", said.age_s
                )
        alarm = self._alarm()
        if alarm is not None and (alarm or Condition.STEADY_POWER not in found):
            found[Condition.STEADY_POWER] = _voltage(not alarm, "hwmon rpi_volt", 0.0)
        if Condition.STEADY_POWER not in found:
            found[Condition.STEADY_POWER] = ConditionReading(Answer.UNKNOWN, source, said.reason)
        return found

    def _alarm(self) -> bool | None:
        for sensor in self._root.glob("sys/class/hwmon/hwmon*"):
            if text(sensor / "name") == "rpi_volt":
                alarms = [number(path) for path in sensor.glob("in*_lcrit_alarm")]
                if any(one is not None for one in alarms):
                    return any(alarms)
        return None


def throttled_bits(output: str) -> int:
    """Read ``vcgencmd get_throttled``.

    >>> throttled_bits("throttled=0x50005")
    327685

    Raises:
        ValueError: it is something else.
    """
    name, _, value = output.strip().partition("=")
    if name != "throttled":
        msg = "expected throttled=0x..."
        raise ValueError(msg)
    return int(value, 16)


def _voltage(steady: bool, source: str, age_s: float) -> ConditionReading:
    if steady:
        return ConditionReading(Answer.YES, source, "the voltage is steady", age_s)
    return ConditionReading(Answer.NO, source, "under-voltage: the power supply or its cable is too weak", age_s)
