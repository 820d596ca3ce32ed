"""An emulated phone: plays a script on a virtual clock that may run faster than real time, and has a person's messages.

Every reading of its conditions says that it is emulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nightjar.edge_agent.core.eligibility import Condition, Readings, battery_reading, yes_or_no
from nightjar.edge_agent.emulator.day import DAY_S, HOUR_S, PhoneState
from nightjar.wire.errors import ConfigError

SOURCE = "emulated day"


@dataclass(frozen=True, slots=True)
class PlayedPhone:
    """A phone that follows a script.

    Attributes:
        script: seconds of virtual time since the first midnight -> state of the phone.
        speed: virtual seconds per real second.
        start_hour: hour of the script at ``started_s``.
        started_s: when this phone was first started, so that a restart resumes its day.
        now_s: the clock that ``started_s`` was read from.
    """

    script: Callable[[float], PhoneState]
    speed: float
    start_hour: float
    started_s: float
    now_s: Callable[[], float]

    def state(self) -> PhoneState:
        """The state of the phone now."""
        return self.script(self._virtual_s())

    def minute(self) -> int:
        """The minute of the phone's virtual day."""
        return int(self._virtual_s() % DAY_S // 60)

    def _virtual_s(self) -> float:
        # A wall clock that was set back must not lead to a time before the first midnight.
        return self.start_hour * HOUR_S + max(0.0, self.now_s() - self.started_s) * self.speed


@dataclass(frozen=True, slots=True)
class ScriptedConditions:
    """Probe that reads a phone's script; ``minimum_battery`` is a level, 0 to 1, below which it does not train."""

    phone: PlayedPhone
    minimum_battery: float

    def __call__(self) -> Readings:
        """Take a reading now."""
        phone = self.phone.state()
        return {
            Condition.CHARGING: yes_or_no(phone.charging, SOURCE, "charging", "unplugged"),
            Condition.IDLE: yes_or_no(not phone.in_use, SOURCE, "idle", "in use"),
            Condition.UNMETERED: yes_or_no(phone.wifi, SOURCE, "on Wi-Fi", "not on Wi-Fi"),
            Condition.BATTERY_HIGH: battery_reading(phone.battery, self.minimum_battery, SOURCE),
        }


def read_messages(path: Path) -> list[str]:
    """Read a person's messages from a text file with one message per line; empty lines are skipped.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or has no message.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"emulator.messages: expected a UTF-8 text file with one message a line, got: {path}: {error}"
        raise ConfigError(msg) from error
    messages = [line.strip() for line in lines if line.strip()]
    if not messages:
        msg = f"emulator.messages: expected one message a line, got none in {path}"
        raise ConfigError(msg)
    return messages
