"""A device whose files were written by a test, and programs that say what a test wants."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field

from nightjar.wire.errors import UnavailableError


class Tree:
    """Files below a root as the kernel would show them."""

    def __init__(self, root):
        self.root = root
        (root / "sys/class/power_supply").mkdir(parents=True)
        self.write("proc/loadavg", "0.0 0.5 0.5 1/200 999")
        self.write("proc/meminfo", "MemTotal: 4000000 kB\nMemFree: 1 kB\nMemAvailable:    2000000 kB")
        self.write(
            "proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
            "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0",
        )

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        return file

    def supply(self, name, **entries):
        for key, value in entries.items():
            self.write(f"sys/class/power_supply/{name}/{key}", value)

    def zone(self, number, millidegrees, kind="cpu-thermal", passive=None):
        where = f"sys/class/thermal/thermal_zone{number}"
        self.write(f"{where}/type", kind)
        self.write(f"{where}/temp", millidegrees)
        if passive is not None:
            self.write(f"{where}/trip_point_0_type", "passive")
            self.write(f"{where}/trip_point_0_temp", passive)

    def terminal(self, name, accessed_s):
        path = self.write(f"dev/{name}", "")
        os.utime(path, (accessed_s, accessed_s))


@dataclass
class Programs:
    """Programs by their first word: an answer, an exception, or an event for which they wait before they answer."""

    answers: dict[str, object] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, command, timeout_s):
        self.asked.append(tuple(command))
        answer = self.answers.get(command[0], UnavailableError(f"{command[0]}: No such file or directory"))
        if isinstance(answer, threading.Event):
            answer.wait(30)
            answer = ""
        if callable(answer):
            answer = answer(command)
        if isinstance(answer, Exception):
            raise answer
        return answer


def settled(probe):
    """The readings once the question in the background has its answer."""
    probe()
    probe.question.wait(10)
    return probe()
