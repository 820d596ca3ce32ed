"""Evaluates Prometheus' alert rules over what it would have scraped in a year, by ``promtool test rules``.

So the rules that an operator installs decide, with their windows and waiting times, and not a copy of them. The scrapes
are five minutes apart, which is as far as Prometheus looks back: an alert comes up to five minutes later than in life.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nightjar.host.programs import find_program, run_program
from nightjar.simulation.rounds.process import EPOCH_S
from nightjar.wire.errors import ConfigError

SCRAPED_EVERY_S = 300.0
UP = 'up{job="nightjar"}'
PROMTOOL = "promtool"
LONGEST_S = 3600.0
"""Of an evaluation; ten days take half a minute."""
FIRING = 'ALERTS{alertstate="firing"}'
SINCE_1970 = "nightjar_round_deadline_seconds"
"""A time; in the rules' time the simulation begins in 1970."""
AGAIN_S = 3600.0
"""An alert that pauses for less is the same one to an operator."""
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0, "y": 365 * 86_400.0}
_FAILED = re.compile(r"time: (?P<time>\w+),\s+exp:.*\s+got:(?P<got>.*)")

Firing = Mapping[str, Sequence[float]]
"""Alert -> times at which it fired."""


class Scrapes:
    """What Prometheus would have stored of the metrics that its rules name.

    >>> scrapes = Scrapes({"nightjar_healthy"})
    >>> for page in (b"nightjar_healthy 1.0", b"nightjar_healthy 1.0", None, None, b"nightjar_healthy 0.0"):
    ...     scrapes.add(page)
    >>> {each["series"]: each["values"] for each in scrapes.series()}
    {'up{job="nightjar"}': '1x1 0x1 1x0', 'nightjar_healthy': '1x1 stale _x1 0x0'}
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._runs: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)  # series -> (value, how often)
        self.count = 0

    def add(self, page: bytes | None) -> None:
        """Note a page of metrics; None if the coordinator did not answer."""
        found = {UP: "0" if page is None else "1"}
        for line in () if page is None else page.decode().splitlines():
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            if name in self._names:
                found[series] = f"{float(value) - (EPOCH_S if name == SINCE_1970 else 0.0):.15g}"
        for series in list(dict.fromkeys([*found, *self._runs])):
            self._append(series, found.get(series, ""))
        self.count += 1

    def _append(self, series: str, value: str) -> None:
        runs = self._runs[series]
        if not runs and self.count:
            runs.append(("", self.count))
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1] + 1)
        else:
            runs.append((value, 1))

    def series(self) -> list[dict[str, str]]:
        """The series as ``promtool`` reads them."""
        return [{"series": name, "values": " ".join(_written(runs))} for name, runs in self._runs.items()]


def _written(runs: list[tuple[str, int]]) -> Iterable[str]:
    for number, (value, times) in enumerate(runs):
        if value:
            yield f"{value}x{times - 1}"
        else:  # as Prometheus marks a series that a scrape does not have any more
            yield "stale" if number else "_"
            if times > 1:
                yield f"_x{times - 1}"


def metrics_in(rules: Path) -> set[str]:
    """Names of the metrics that rules may use.

    Raises:
        ConfigError: the file cannot be read, or ``promtool`` is not installed.
    """
    if find_program(PROMTOOL) is None:
        msg = "promtool, which evaluates the rules, is not installed: apt install prometheus"
        raise ConfigError(msg)
    try:
        return set(re.findall(r"nightjar_\w+", rules.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        msg = f"expected a file with Prometheus' rules, such as deploy/prometheus/alerts.yml, got {rules}: {error}"
        raise ConfigError(msg) from error


def evaluated(rules: Path, scrapes: Scrapes) -> Firing:
    """When which alert fired.

    Raises:
        ConfigError: ``promtool`` does not take the rules.
        UnavailableError: it cannot be run.
    """
    every = f"{SCRAPED_EVERY_S:.0f}s"
    asked = [
        {"expr": FIRING, "eval_time": f"{number * SCRAPED_EVERY_S:.0f}s", "exp_samples": []}
        for number in range(scrapes.count)
    ]
    case: dict[str, Any] = {"interval": every, "input_series": scrapes.series(), "promql_expr_test": asked}
    tests = {"rule_files": [str(rules.resolve())], "evaluation_interval": every, "tests": [case]}
    with tempfile.TemporaryDirectory(prefix="nightjar-rules-") as folder:
        path = Path(folder) / "tests.json"  # which is YAML, too
        path.write_bytes(msgspec.json.encode(tests))
        done = run_program([PROMTOOL, "test", "rules", path], LONGEST_S)
    said = done.stdout + done.stderr
    firing: defaultdict[str, list[float]] = defaultdict(list)
    for failed in _FAILED.finditer(said):  # what fired was not expected
        at_s = sum(float(many) * _UNITS_S[unit] for many, unit in re.findall(r"(\d+)([a-z]+)", failed["time"]))
        for alert in sorted(set(re.findall(r'alertname="(\w+)"', failed["got"]))):
            firing[alert].append(at_s)
    if done.returncode and not firing:
        msg = f"{PROMTOOL} did not evaluate {rules}: {said[-500:]}"
        raise ConfigError(msg)
    return firing


@dataclass(frozen=True, slots=True)
class ExpectedAlerts:
    """What a fault may raise, and what it must.

    Attributes:
        until_s: from then on it explains nothing.
        explains: alerts that may fire.
        owed: of these at least one must fire while it lasts; empty for none.
    """

    fault: str
    from_s: float
    until_s: float
    explains: frozenset[str]
    owed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What the rules came to: how often each alert began, faults that had none, and alerts that no fault explains."""

    raised: Mapping[str, int]
    without_alert: Sequence[str]
    without_fault: Sequence[str]


def judged(expected: Sequence[ExpectedAlerts], firing: Firing) -> RuleVerdict:
    """Compare what fired with the faults.

    >>> away = ExpectedAlerts("away", 0, 900, frozenset({"Down"}), frozenset({"Down"}))
    >>> judged([away], {"Down": [600.0, 900.0, 9000.0]})
    RuleVerdict(raised={'Down': 2}, without_alert=[], without_fault=['Down at 9000'])
    >>> judged([away], {}).without_alert
    ['away: no Down']
    """
    raised: Counter[str] = Counter()
    without_fault = []
    for alert, times in firing.items():
        before_s = None
        for at_s in times:
            if before_s is None or at_s - before_s > AGAIN_S:
                raised[alert] += 1
                if not any(each.from_s <= at_s <= each.until_s and alert in each.explains for each in expected):
                    without_fault.append(f"{alert} at {at_s:.0f}")
            before_s = at_s
    return RuleVerdict(
        dict(raised),
        [
            f"{each.fault}: no {' or '.join(sorted(each.owed))}"
            for each in expected
            if each.owed and not _fires(each, firing)
        ],
        without_fault,
    )


def _fires(expected: ExpectedAlerts, firing: Firing) -> bool:
    times = [at_s for name in expected.owed for at_s in firing.get(name, ())]
    return any(expected.from_s <= at_s <= expected.until_s for at_s in times)
