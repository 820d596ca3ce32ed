"""Probe for metered networks: asks the configuration first, then NetworkManager, then looks at the interface's name.

Only the interface with the best default route counts: it carries our traffic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, yes_or_no
from nightjar.edge_agent.shell.probes.background import Background
from nightjar.edge_agent.shell.probes.command import Run, run
from nightjar.edge_agent.shell.probes.files import text

Metered = Literal["auto", "yes", "no"]

EVERY_S = 20.0
TIMEOUT_S = 5.0
COSTLY = ("ww", "ppp", "rmnet", "usb", "bnep")
"""Name prefixes of modems and of tethered phones."""
FREE = ("en", "eth", "wl", "br", "bond", "team")


class Network:
    """Probe for metered networks."""

    def __init__(
        self, root: Path, metered: Metered, run: Run = run, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._metered = metered
        self._run = run
        self.question = Background(self._ask, EVERY_S, now_s)

    def __call__(self) -> Readings:
        """Take a reading now."""
        return {Condition.UNMETERED: self._reading()}

    def _reading(self) -> ConditionReading:
        if self._metered != "auto":
            return _say(self._metered == "yes", "configuration")
        interface = default_interface(self._root)
        if interface is None:
            return ConditionReading(Answer.UNKNOWN, "/proc/net/route", "no network: no default route")
        latest = self.question.latest()
        if latest.answer is not None and latest.answer[0] == interface and latest.answer[1] in {"yes", "no"}:
            return _say(latest.answer[1] == "yes", "NetworkManager", latest.age_s)
        source = f"name of {interface}"
        if interface.startswith(COSTLY):
            return _say(True, source)
        if interface.startswith(FREE):
            return _say(False, source)
        return ConditionReading(
            Answer.UNKNOWN, source, "set conditions.metered: nothing says whether this network costs money"
        )

    def _ask(self) -> tuple[str, str]:
        interface = default_interface(self._root) or ""
        output = self._run(("nmcli", "-g", "GENERAL.METERED", "device", "show", interface), TIMEOUT_S)
        return interface, output.partition("(")[0].strip()  # such as "yes (guessed)"


def default_interface(root: Path) -> str | None:
    """The interface with the best default route; None if there is none."""
    routes = []
    for line in text(root / "proc/net/route").splitlines()[1:]:
        fields = line.split()
        # Interface, destination, gateway, flags, references, use, metric, mask: all hexadecimal except the metric.
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            routes.append((int(fields[6]), fields[0]))
    for line in text(root / "proc/net/ipv6_route").splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[0] == "0" * 32 and fields[1] == "00" and fields[9] != "lo":
            routes.append((int(fields[5], 16), fields[9]))
    return min(routes, default=(0, None))[1]


def _say(metered: bool, source: str, age_s: float = 0.0) -> ConditionReading:
    return yes_or_no(not metered, source, "unmetered", "the network is metered", age_s)
