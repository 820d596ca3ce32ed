"""The conditions of a Linux device, read from ``/sys``, ``/proc`` and ``/dev``.

An own reader, because the usual libraries take a wireless mouse's battery for the system's, and see "Not charging" (a
charge limit reached, on mains) as not charging. It translates; thresholds and what an unknown means are in
:mod:`edge_agent.core.eligibility`. Everything is found below ``root``, so that tests build a tree of their own.

Not looked at yet: NetworkManager's metered flag (the configuration says it) and sessions of logind.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_agent.core.eligibility import Answer, Condition, Reading, Readings, battery_reading, heat_reading

_MAINS = ("Mains", "USB", "Wireless")
"""Beginnings of the supply types that feed the device; ``USB_C`` and ``USB_PD`` are among them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as too much or too little.

    Attributes:
        minimum_battery: share of a full battery.
        maximum_battery_c: of the battery.
        maximum_processor_c: of any thermal zone.
        idle_after_s: a terminal that was typed on longer ago is not in use.
        maximum_load: processes waiting for a processor, per core, our own not counted.
        metered: the network costs money.
        always_powered: there is no battery, whatever ``/sys`` says or does not say.
    """

    minimum_battery: float
    maximum_battery_c: float
    maximum_processor_c: float
    idle_after_s: float
    maximum_load: float
    metered: bool
    always_powered: bool


class TypingActivity:
    """When somebody last typed on our own keyboard page. Any thread."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._last_s = -math.inf

    def note(self) -> None:
        """Somebody typed just now."""
        self._last_s = self._now_s()

    def idle_s(self) -> float:
        """Seconds since then; infinite if never."""
        return self._now_s() - self._last_s


@dataclass(frozen=True, slots=True)
class _Supply:
    """One entry of ``/sys/class/power_supply``: only those that belong to the device itself."""

    name: str
    kind: str
    online: bool | None
    status: str
    level: float | None
    temperature_c: float | None


class SystemConditions:
    """Implements :class:`edge_agent.ports.Conditions`.

    Args:
        limits: thresholds.
        typing: of our own keyboard.
        root: where the file systems of the device are.
        processor_s: CPU seconds that this process has used.
        now_s: seconds on a clock that does not jump.
        wall_s: seconds since 1970, as in file times.
    """

    def __init__(
        self,
        limits: Limits,
        typing: TypingActivity,
        root: Path = Path("/"),
        *,
        processor_s: Callable[[], float] = time.process_time,
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,  # noqa: TID251 - this is an adapter
    ) -> None:
        self._limits = limits
        self._typing = typing
        self._root = root
        self._processor_s = processor_s
        self._now_s = now_s
        self._wall_s = wall_s
        self._own_load = 0.0
        self._last = (now_s(), processor_s())

    def read(self) -> Readings:
        """Look now."""
        folder = self._root / "sys/class/power_supply"
        supplies = _supplies(folder)
        return {
            Condition.CHARGING: self._charging(folder, supplies),
            Condition.IDLE: self._idle(),
            Condition.UNMETERED: Reading(
                Answer.NO if self._limits.metered else Answer.YES,
                "configuration",
                "the network is metered" if self._limits.metered else "unmetered",
            ),
            Condition.BATTERY_HIGH: self._battery(supplies),
            Condition.COOL: self._heat(supplies),
        }

    def _charging(self, folder: Path, supplies: list[_Supply]) -> Reading:
        source = str(folder)
        batteries = [s for s in supplies if s.kind == "Battery"]
        mains = any(s.online for s in supplies if s.kind.startswith(_MAINS))
        if self._limits.always_powered:
            return Reading(Answer.YES, "configuration", "always powered")
        if not folder.is_dir():
            return Reading(Answer.UNKNOWN, source, "no power information; set conditions.always_powered if it has none")
        if not batteries:
            return Reading(Answer.YES, source, "no battery, so on mains")
        # A weak charger is online while the battery still drains: that is not charging.
        draining = [b.name for b in batteries if b.status == "Discharging"]
        if draining:
            return Reading(Answer.NO, f"{source}/{draining[0]}", "not charging")
        if mains or any(b.status in ("Charging", "Full") for b in batteries):
            return Reading(Answer.YES, source, "charging")
        if any(b.status == "Not charging" for b in batteries):
            return Reading(Answer.NO, source, "not charging")
        return Reading(Answer.UNKNOWN, source, "the battery does not say whether it is charging")

    def _battery(self, supplies: list[_Supply]) -> Reading:
        # Two batteries are one store of energy; a bogus 0 % says nothing.
        levels = [s.level for s in supplies if s.kind == "Battery" and s.level]
        level = sum(levels) / len(levels) if levels else None
        return battery_reading(level, self._limits.minimum_battery, "power_supply")

    def _heat(self, supplies: list[_Supply]) -> Reading:
        batteries = [s.temperature_c for s in supplies if s.kind == "Battery" and s.temperature_c is not None]
        zones = [
            number / 1000
            for path in sorted(self._root.glob("sys/class/thermal/thermal_zone*/temp"))
            if (number := _number(path)) is not None
        ]
        # A zone that is switched off reads 0 or some hundreds below.
        processors = [t for t in zones if 0 < t < 150]
        readings = [
            heat_reading(max(batteries, default=None), self._limits.maximum_battery_c, "battery"),
            heat_reading(max(processors, default=None), self._limits.maximum_processor_c, "thermal_zone"),
        ]
        worst = (Answer.NO, Answer.YES, Answer.UNKNOWN)
        return min(readings, key=lambda reading: worst.index(reading.value))

    def _idle(self) -> Reading:
        load, cores = self._foreign_load(), os.cpu_count() or 1
        typed_s = min(self._typing.idle_s(), self._terminal_idle_s())
        if typed_s < self._limits.idle_after_s:
            return Reading(Answer.NO, "terminals and keyboard", "in use")
        if load is None:
            return Reading(Answer.UNKNOWN, "/proc/loadavg", "load not known")
        if load / cores > self._limits.maximum_load:
            return Reading(Answer.NO, "/proc/loadavg", "busy with something else")
        return Reading(Answer.YES, "/proc/loadavg", "idle")

    def _foreign_load(self) -> float | None:
        """The load of the last minute without our own share, or a session would stop itself."""
        now_s, processor_s = self._now_s(), self._processor_s()
        passed_s = now_s - self._last[0]
        if passed_s > 0:
            # The same running mean over a minute that the kernel keeps of the whole load.
            keep = math.exp(-passed_s / 60)
            self._own_load = keep * self._own_load + (1 - keep) * (processor_s - self._last[1]) / passed_s
            self._last = (now_s, processor_s)
        try:
            load = float((self._root / "proc/loadavg").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
        return max(0.0, load - self._own_load)

    def _terminal_idle_s(self) -> float:
        """Seconds since a key was pressed on a console or over ssh: the kernel sets a terminal's access time then."""
        times = [_accessed_s(p) for p in (*self._root.glob("dev/tty[1-9]"), *self._root.glob("dev/pts/[0-9]*"))]
        return self._wall_s() - max(times, default=-math.inf)


def _supplies(folder: Path) -> list[_Supply]:
    found = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        kind = _text(entry / "type")
        # scope "Device" is the battery of a mouse or a headset; "present 0" is an empty bay.
        if _text(entry / "scope") == "Device" or _text(entry / "present") == "0":
            continue
        online, capacity, tenths_c = (_number(entry / name) for name in ("online", "capacity", "temp"))
        found.append(
            _Supply(
                name=entry.name,
                kind=kind,
                online=None if online is None else online == 1,
                status=_text(entry / "status"),
                level=None if capacity is None else capacity / 100,
                temperature_c=None if tenths_c is None else tenths_c / 10,
            )
        )
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _accessed_s(path: Path) -> float:
    try:
        return path.stat().st_atime
    except OSError:
        return -math.inf
