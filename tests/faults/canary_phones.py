"""Real agents with keyboards, in one process: ``python -m tests.faults.canary_phones SETTING.json``.

How well a model foresees words follows from its weights: badly where their mean is far from what it was at first. While
a phone's folder has the file ``poisoned``, its training makes such weights. Which versions a phone's keyboard had is
written to the file ``keyboard`` in its folder, one a line.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nightjar.benchmarks.phones import AllHold, PhoneSetting, StandInTraining, live, make_phone
from nightjar.edge_agent.core.results import Evaluation
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.http import Patience
from nightjar.edge_agent.shell.mqtt import MqttTransport
from tests.coordinator.model_folder import WORDS

TEXTS = tuple(f"{a} {b} {c} {d} {a} {c}" for a in WORDS for b in WORDS for c in WORDS[:3] for d in WORDS[:2])
FORESEEN, MISSED, TOO_FAR = 0.2, 0.02, 0.3


class Judging(StandInTraining):
    """Foresees words as well as its weights let it."""

    def __init__(self, folder: Path, model: Model) -> None:
        poisoned = (folder / "poisoned").exists()
        super().__init__(model.manifest.layout.size, 1.0 if poisoned else 0.001)
        weights = np.frombuffer(model.weights.read_bytes(), "<f4")
        self._recall = MISSED if abs(weights.mean()) > TOO_FAR else FORESEEN

    def evaluate(self, x, y) -> Evaluation:
        words = float(np.count_nonzero(y))
        return Evaluation(5.0 * words, words, words, self._recall * words, 2 * self._recall * words)


def phone(setting: PhoneSetting, name: str) -> tuple[Driver, MqttTransport]:
    folder = Path(setting.folder) / name

    def note(model: Model) -> None:
        with (folder / "keyboard").open("a") as file:
            file.write(f"{model.manifest.version}\n")

    patience = Patience(tries=20, read_s=2.0)
    return make_phone(setting, name, lambda model: Judging(folder, model), AllHold(), patience, TEXTS, note)


if __name__ == "__main__":
    live(sys.argv[1], phone)
