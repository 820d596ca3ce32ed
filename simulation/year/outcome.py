"""What a simulated year is asked for, and what it came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from nightjar.simulation.rounds.logs import Errors
from nightjar.simulation.year.alerts import AlertBook
from nightjar.simulation.year.reports import ReportBook
from nightjar.simulation.year.rules import RuleVerdict

DEVICES = 500


@dataclass(frozen=True, slots=True)
class YearSettings:
    """Settings of the command line."""

    seed: int
    model: str = "tiny"
    days: int = 365
    devices: int = DEVICES
    former: Path | None = None  # tree of an earlier commit, whose agent every second device has
    rules: Path | None = None  # Prometheus' rules, to evaluate over what it would have scraped


@dataclass(slots=True)
class YearOutcome:
    """What a year came to."""

    settings: YearSettings
    book: ReportBook
    thrown: Counter[str] = field(default_factory=Counter)
    visits: dict[str, str] = field(default_factory=dict)  # device -> why it did not come back by itself
    disk: list[int] = field(default_factory=list)  # bytes at the end of each day
    written_bytes: float = 0.0  # of a device and day
    restarts: int = 0
    mended: int = 0
    renewed_late: int = 0  # certificates that had ended
    former_accepted: int = 0  # reports of devices with an earlier agent
    alerts: AlertBook = field(default_factory=AlertBook)
    rules: RuleVerdict | None = None  # None if they were not evaluated
    versions: int = 0
    errors: Errors = field(default_factory=Errors)
    wall_s: float = 0.0
    processor_s: float = 0.0
    authority_renewed: bool = False
    releases_current: int = 0
