"""Is the device busy with something else? Our own training never counts, or a session would stop itself.

Pressure stall information says for each control group which share of the last ten seconds somebody in it waited for a
processor. Of every group beside our own (systemd gives a service one) the worst counts: what others suffer, whoever
causes it, and nothing of what we suffer. Subtracting our figure from the system's would not do: on a device that is
busy with something else it is mostly we who wait.

Where there are no such groups (a shell, a container, a kernel without ``psi=1``) it is the load average of the last
minute, without the processor time of this process and its children.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from edge_agent.shell.probes.files import text
from edge_agent.shell.probes.own_use import own_use

MAXIMUM_PRESSURE = 0.2
"""Share of the time in which something else may wait for a processor; a niced trainer hardly adds to it."""
MAXIMUM_LOAD = 0.7
"""Processes per core, our own not counted; more, and something else is at work."""


class Busy:
    """A probe.

    Args:
        root: where ``proc`` and ``sys`` are.
        maximum_pressure: share of the time in which something else may wait for a processor.
        maximum_load: processes per core, our own not counted.
        processor_s: CPU seconds that we and our children have used.
        now_s: seconds on a clock that does not jump.
        cores: number of processors.
    """

    def __init__(
        self,
        root: Path,
        maximum_pressure: float = MAXIMUM_PRESSURE,
        maximum_load: float = MAXIMUM_LOAD,
        *,
        processor_s: Callable[[], float] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        cores: int | None = None,
    ) -> None:
        self._root = root
        self._maximum_pressure = maximum_pressure
        self._maximum_load = maximum_load
        self._processor_s = processor_s or (lambda: own_use().processor_s)
        self._now_s = now_s
        self._cores = cores or os.cpu_count() or 1
        self._own_load = 0.0
        self._last = (now_s(), self._processor_s())

    def __call__(self) -> Readings:
        """Look now."""
        pressure = pressure_of_others(self._root)
        if pressure is not None:
            return {Condition.IDLE: _reading(pressure <= self._maximum_pressure, "pressure of other control groups")}
        load = self._foreign_load()
        if load is None:
            return {Condition.IDLE: ConditionReading(Answer.UNKNOWN, "/proc/loadavg", "load not known")}
        return {Condition.IDLE: _reading(load / self._cores <= self._maximum_load, "/proc/loadavg")}

    def _foreign_load(self) -> float | None:
        """The load of the last minute without our own share."""
        now_s, processor_s = self._now_s(), self._processor_s()
        passed_s = now_s - self._last[0]
        if passed_s > 0:
            # The same running mean over a minute that the kernel keeps of the whole load.
            keep = math.exp(-passed_s / 60)
            used = max(0.0, processor_s - self._last[1]) / passed_s
            self._own_load = keep * self._own_load + (1 - keep) * used
            self._last = (now_s, processor_s)
        try:
            load = float(text(self._root / "proc/loadavg").split()[0])
        except (ValueError, IndexError):
            return None
        return max(0.0, load - self._own_load)


def pressure_of_others(root: Path) -> float | None:
    """The worst share of the last ten seconds, 0 to 1, in which something outside our control group waited.

    None if we have no group of our own, or the kernel keeps no such figures.
    """
    lines = (line for line in text(root / "proc/self/cgroup").splitlines() if line.startswith("0::/"))
    own = next(lines, "0::/").removeprefix("0::/").strip("/")
    if not own:
        return None
    found = []
    folder = root / "sys/fs/cgroup"
    for branch in own.split("/"):
        found += [_some_avg10(path) for path in folder.glob("*/cpu.pressure") if path.parent.name != branch]
        folder /= branch
    return max((share for share in found if share is not None), default=None)


def _some_avg10(path: Path) -> float | None:
    for line in text(path).splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some" and rest.startswith("avg10="):
            try:
                return float(rest.split()[0].removeprefix("avg10=")) / 100
            except ValueError:
                return None
    return None


def _reading(idle: bool, source: str) -> ConditionReading:
    return (
        ConditionReading(Answer.YES, source, "idle")
        if idle
        else ConditionReading(Answer.NO, source, "busy with something else")
    )
