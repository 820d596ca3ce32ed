"""``nightjar-agent conditions``: shows whether this device may train now, and why.

It uses the same probes and rules as the running agent. With ``--watch`` it also counts how long the device has been
eligible, as the agent does; if the device was eligible before the watch began, the agent is ahead of this count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nightjar.edge_agent.assembly import emulation_started_s
from nightjar.edge_agent.commands.opened import opened_database
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.core.eligibility import (
    CAUSES,
    Condition,
    EligibilityRun,
    EligibilityVerdict,
    Readings,
    apply_hysteresis,
    examples_reading,
    fresh,
    judge,
)
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.device import assembled_device, typing_activity
from nightjar.edge_agent.shell.examples import DeviceExamples


@dataclass(frozen=True, slots=True)
class ConditionsNow:
    """The conditions at one moment; after a single reading the run follows from the verdict."""

    readings: Readings
    verdict: EligibilityVerdict
    run: EligibilityRun

    def as_json(self, config: AgentConfig) -> dict[str, Any]:
        """The conditions as plain data for JSON."""
        policy = config.conditions.policy
        return {
            "device": config.device,
            "emulated": config.emulator is not None,
            "eligible": self.verdict.eligible,
            "standing": self.run.value,
            "reason": self.verdict.reason,
            "cause": None if self.verdict.cause is None else self.verdict.cause.value,
            "conditions": {
                condition.value: {
                    "value": reading.value.value,
                    "reason": reading.reason,
                    "source": reading.source,
                    "age_s": round(reading.age_s, 1),
                    "rule": policy[condition].value,
                    "cause": CAUSES[condition].value,
                }
                for condition, reading in self.readings.items()
            },
        }

    def as_table(self, config: AgentConfig) -> list[str]:
        """The conditions as lines of text for people."""
        emulated = ", emulated" if config.emulator is not None else ""
        lines = [f"{config.device}{emulated}: {self.headline}"]
        for condition, reading in self.readings.items():
            age = f", {reading.age_s:.0f} s ago" if reading.age_s >= 1 else ""
            rule = config.conditions.policy[condition].value
            lines.append(
                f"  {condition.value:20} {reading.value.value:8} {reading.reason} ({reading.source}{age}; {rule})"
            )
        return lines

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        match self.run:
            case EligibilityRun.UNFIT:
                return f"not eligible: {self.verdict.reason}"
            case EligibilityRun.SETTLING:
                return "eligible, but not for long enough yet"
            case EligibilityRun.FIT:
                return "eligible"


def looks(config: AgentConfig) -> Iterator[ConditionsNow]:
    """Read the conditions repeatedly, as often as the agent does; the first reading waits for slow programs.

    Raises:
        ConfigError: the database cannot be used.
    """
    with opened_database(config) as database:
        clock = SystemClock()
        started_s = clock.wall_s() if database is None else emulation_started_s(database, clock)
        paused = (lambda: False) if database is None else database.learning_paused
        device = assembled_device(config, clock, typing_activity(config), paused, started_s)
        device.ask_all()
        examples = DeviceExamples(database, config.store.examples)
        eligible_since_s: float | None = None
        while True:
            read = {
                **device.conditions.read(),
                Condition.HAS_EXAMPLES: examples_reading(examples.count(), examples.task_types()),
            }
            readings = {condition: fresh(read.get(condition)) for condition in Condition}
            verdict = judge(readings, config.conditions.policy)
            eligible_since_s, run = apply_hysteresis(
                eligible_since_s, verdict, time.monotonic(), config.conditions.hysteresis_s
            )
            yield ConditionsNow(readings, verdict, run)
            time.sleep(config.conditions.poll_s)


def look_once(config: AgentConfig) -> ConditionsNow:
    """Read the conditions once, without hysteresis.

    Raises:
        ConfigError: the database cannot be used.
    """
    look = next(looks(config))
    return ConditionsNow(
        look.readings, look.verdict, EligibilityRun.FIT if look.verdict.eligible else EligibilityRun.UNFIT
    )
