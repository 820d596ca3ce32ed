"""Probe for an Android phone on a USB cable, run with ``adb`` on the host that trains for it (a lab, a phone rack).

``dumpsys`` output is meant for people, so only lines that have been stable over many Android versions are read, and
anything not found is unknown. Its battery service can be made to report fake values (``dumpsys battery unplug``); a
reading based on them says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nightjar.edge_agent.core.eligibility import (
    Answer,
    Condition,
    ConditionReading,
    Readings,
    battery_reading,
    heat_reading,
    yes_or_no,
)
from nightjar.edge_agent.shell.probes.background import Background
from nightjar.edge_agent.shell.probes.command import Run, run
from nightjar.edge_agent.shell.probes.termux import charging_reading
from nightjar.wire.errors import UnavailableError

EVERY_S = 10.0
TIMEOUT_S = 5.0
MODERATE = 2
"""Thermal status of Android: 0 none, 1 light, 2 moderate, and worse."""

_STATUS = {1: "UNKNOWN", 2: "CHARGING", 3: "DISCHARGING", 4: "NOT_CHARGING", 5: "FULL"}


@dataclass(frozen=True, slots=True)
class PhoneState:
    """What a phone reports; None means not reported.

    Attributes:
        plugged: whether it is plugged in at all.
        pretended: the battery service was set to report fake values.
        awake: the screen is on, or the phone was used a moment ago.
        deep_idle: Android is in its deep idle state (Doze).
        thermal_status: Android's thermal status of the whole phone.
    """

    plugged: bool | None
    status: str
    level: float | None
    temperature_c: float | None
    pretended: bool
    awake: bool | None
    deep_idle: bool | None
    metered: bool | None
    thermal_status: int | None


class Adb:
    """Probe for an Android phone; an empty ``serial`` selects the only one."""

    def __init__(
        self,
        serial: str,
        minimum_battery: float,
        maximum_battery_c: float,
        run: Run = run,
    ) -> None:
        self._serial = serial
        self._minimum_battery = minimum_battery
        self._maximum_battery_c = maximum_battery_c
        self._run = run
        self.question = Background(self._ask, EVERY_S)

    def __call__(self) -> Readings:
        """Take a reading now."""
        latest = self.question.latest()
        source = f"adb {self._serial}".strip()
        if latest.answer is None:
            unknown = ConditionReading(Answer.UNKNOWN, source, latest.reason, latest.age_s)
            asked = (Condition.CHARGING, Condition.BATTERY_HIGH, Condition.IDLE, Condition.UNMETERED, Condition.COOL)
            return dict.fromkeys(asked, unknown)
        phone = latest.answer
        if phone.pretended:
            source += " (pretended: dumpsys battery reset ends it)"
        readings = {
            Condition.CHARGING: (
                ConditionReading(Answer.UNKNOWN, source, "the phone does not say whether it is plugged in")
                if phone.plugged is None
                else charging_reading(phone.plugged, phone.status, source)
            ),
            Condition.BATTERY_HIGH: battery_reading(phone.level or None, self._minimum_battery, source),
            Condition.IDLE: _idle(phone, source),
            Condition.UNMETERED: _unmetered(phone, source),
            Condition.COOL: self._cool(phone, source),
        }
        return {condition: replace(reading, age_s=latest.age_s) for condition, reading in readings.items()}

    def _cool(self, phone: PhoneState, source: str) -> ConditionReading:
        if phone.thermal_status is not None and phone.thermal_status >= MODERATE:
            return ConditionReading(Answer.NO, source, "too hot: Android's thermal status is moderate or worse")
        return heat_reading(phone.temperature_c, self._maximum_battery_c, source)

    def _ask(self) -> PhoneState:
        def dumpsys(*arguments: str) -> str:
            which = ("-s", self._serial) if self._serial else ()
            return self._run(("adb", *which, "shell", "dumpsys", *arguments), TIMEOUT_S)

        def if_there(*arguments: str) -> str:
            try:
                return dumpsys(*arguments)
            except UnavailableError:
                # An older Android, or a vendor that left this service out.
                return ""

        return phone_from(
            battery=dumpsys("battery"),
            deep_idle=if_there("deviceidle", "get", "deep"),
            power=if_there("power"),
            network=if_there("netstats"),
            thermal=if_there("thermalservice"),
        )


def phone_from(battery: str, deep_idle: str, power: str, network: str, thermal: str) -> PhoneState:
    """Parse what ``dumpsys`` printed about a phone's services."""
    plugs = re.findall(r"^\s*\w+ powered: (true|false)\s*$", battery, re.MULTILINE)
    level, scale = _number(r"^\s*level: (\d+)", battery), _number(r"^\s*scale: (\d+)", battery)
    tenths_c = _number(r"^\s*temperature: (-?\d+)", battery)
    status = _number(r"^\s*status: (\d+)", battery)
    wakefulness = re.search(r"mWakefulness=(\w+)", power)
    default = re.search(r"ident=\[\{[^\n]*metered=(true|false)[^\n]*defaultNetwork=true", network)
    return PhoneState(
        plugged="true" in plugs if plugs else None,
        status=_STATUS.get(status or 1, "UNKNOWN"),
        level=None if level is None else level / (scale or 100),
        temperature_c=None if tenths_c is None else tenths_c / 10,
        pretended="UPDATES STOPPED" in battery,
        awake=None if wakefulness is None else wakefulness[1] == "Awake",
        deep_idle=None if not deep_idle.strip() else deep_idle.strip() == "IDLE",
        metered=None if default is None else default[1] == "true",
        thermal_status=_number(r"^\s*Thermal Status: (\d+)", thermal),
    )


def _idle(phone: PhoneState, source: str) -> ConditionReading:
    if phone.awake is None and phone.deep_idle is None:
        return ConditionReading(Answer.UNKNOWN, source, "the phone does not say whether it is in use")
    # Deep idle needs an unplugged phone at rest, so its absence says nothing; a dark screen is enough.
    return yes_or_no(phone.deep_idle or phone.awake is False, source, "idle", "in use")


def _unmetered(phone: PhoneState, source: str) -> ConditionReading:
    if phone.metered is None:
        return ConditionReading(Answer.UNKNOWN, source, "the phone does not say what its network costs")
    return yes_or_no(not phone.metered, source, "unmetered", "the network is metered")


def _number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text, re.MULTILINE)
    return None if match is None else int(match[1])
