"""Real agents in one process that can be held: ``python -m tests.faults.phones SETTING.json``.

Training moves every weight by a number that follows from the device's name, so that a test can compute what a version
must be. A file with the name of a state in a phone's folder holds it there: ``unplugged`` or ``training``.
"""

from __future__ import annotations

import sys
import time
import zlib
from pathlib import Path

from nightjar.benchmarks.phones import AllHold, PhoneSetting, StandInTraining, live, make_phone
from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from nightjar.edge_agent.core.results import TrainStep
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.shell.http import Patience
from nightjar.edge_agent.shell.mqtt import MqttTransport


def step_of(device: str) -> float:
    """How far this device's training moves every weight."""
    return 0.001 * (1 + zlib.crc32(device.encode()) % 97)


class Held(StandInTraining):
    """Learns the same whatever it reads, and not as long as a file holds it."""

    def __init__(self, folder: Path, size: int) -> None:
        super().__init__(size, step_of(folder.name))
        self._held = folder / "training"

    def train(self, x, y, learning_rate, clip_norm) -> TrainStep:
        while self._held.exists():
            time.sleep(0.02)
        return super().train(x, y, learning_rate, clip_norm)


class Pluggable(AllHold):
    """All conditions hold, as long as nobody unplugs the phone."""

    def __init__(self, folder: Path) -> None:
        self._unplugged = folder / "unplugged"

    def read(self) -> Readings:
        found = dict(super().read())
        if self._unplugged.exists():
            found[Condition.CHARGING] = ConditionReading(Answer.NO, "test", "unplugged")
        return found


def phone(setting: PhoneSetting, name: str) -> tuple[Driver, MqttTransport]:
    folder = Path(setting.folder) / name
    patience = Patience(tries=20, read_s=2.0)
    return make_phone(
        setting, name, lambda model: Held(folder, model.manifest.layout.size), Pluggable(folder), patience
    )


if __name__ == "__main__":
    live(sys.argv[1], phone)
