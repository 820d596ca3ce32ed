"""Probe for other work on the device. Our own training never counts, or a session would stop itself.

Pressure stall information reports, for each control group, the share of the last ten seconds in which a process in it
waited for a processor. The worst value of all groups but our own counts (systemd gives each service a group): how long
others wait, whatever the cause, and not how long we wait. Subtracting our figure from the system's would not work: on a
device that is busy with something else, it is mostly our own process that waits.

Without such groups (a shell, a container, a kernel without ``psi=1``) the probe uses the load average of the last
minute, minus the processor time of this process and its children.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, yes_or_no
from nightjar.edge_agent.shell.probes.files import text
from nightjar.edge_agent.shell.probes.own_use import own_use

MAXIMUM_PRESSURE = 0.2
"""Share of the time for which other processes may wait for a processor; a niced trainer hardly adds to it."""
MAXIMUM_LOAD = 0.7
"""Processes per core without our own; above this the device is busy with other work."""


class Busy:
    """Probe for processor contention; ``processor_s`` are CPU seconds of this process and its children."""

    def __init__(
        self,
        root: Path,
        *,
        processor_s: Callable[[], float] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        cores: int | None = None,
    ) -> None:
        self._root = root
        self._processor_s = processor_s or (lambda: own_use().processor_s)
        self._now_s = now_s
        self._cores = cores or os.cpu_count() or 1
        self._own_load = 0.0
        self._last = (now_s(), self._processor_s())

    def __call__(self) -> Readings:
        """Take a reading now."""
        pressure = pressure_of_others(self._root)
        if pressure is not None:
            return _reading(pressure <= MAXIMUM_PRESSURE, "pressure of other control groups")
        load = self._foreign_load()
        if load is None:
            return {Condition.IDLE: ConditionReading(Answer.UNKNOWN, "/proc/loadavg", "load not known")}
        return _reading(load / self._cores <= MAXIMUM_LOAD, "/proc/loadavg")

    def _foreign_load(self) -> float | None:
        """The load average of the last minute without our own share."""
        now_s, processor_s = self._now_s(), self._processor_s()
        passed_s = now_s - self._last[0]
        if passed_s > 0:
            # The same exponential mean over a minute that the kernel keeps of the total load.
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
    """The highest CPU pressure outside our control group: share of the last ten seconds, 0 to 1, spent waiting.

    None if we have no group of our own, or the kernel keeps no pressure figures.
    """
    lines = (line for line in text(root / "proc/self/cgroup").splitlines() if line.startswith("0::/"))
    own = next(lines, "0::/").removeprefix("0::/").strip("/")
    if not own:
        return None
    shares = []
    folder = root / "sys/fs/cgroup"
    for branch in own.split("/"):
        shares += [_some_avg10(path) for path in folder.glob("*/cpu.pressure") if path.parent.name != branch]
        folder /= branch
    return max((share for share in shares if share is not None), default=None)


def _some_avg10(path: Path) -> float | None:
    for line in text(path).splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some" and rest.startswith("avg10="):
            try:
                return float(rest.split()[0].removeprefix("avg10=")) / 100
            except ValueError:
                return None
    return None


def _reading(idle: bool, source: str) -> Readings:
    return {Condition.IDLE: yes_or_no(idle, source, "idle", "busy with something else")}
