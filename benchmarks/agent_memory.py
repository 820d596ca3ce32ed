"""Resident memory of what an agent holds: runtime, model loaded and a suggestion made; then training.

Each figure is the peak (VmHWM) of a fresh child process that imports what the agent imports and nothing of TensorFlow.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from benchmarks.measuring import show
from benchmarks.setting import SEED, setting

TITLE = "agent memory, MB resident"


def measure() -> list[dict[str, Any]]:
    """Rows for each model."""
    rows = []
    for name in ("tiny", "gboard"):
        at = setting(name)
        arguments = [str(at.model.program), name, str(at.vocabulary.size)]
        child = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-m", "benchmarks.agent_memory", "--child", *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        rows.append({"model": name, "parameters": at.layout.size, **msgspec.json.decode(child.stdout.splitlines()[-1])})
    return rows


def _child(program: str, name: str, vocabulary_size: int) -> None:
    import numpy as np

    import edge_agent.driver
    import edge_agent.keyboard.server  # noqa: F401
    from edge_agent.shell.tflite import TfliteProgram, runtime_name
    from models.configurations import configuration
    from models.initial import initial_weights

    imported = _peak_mb()
    shape = configuration(name)
    weights = initial_weights(shape, vocabulary_size, SEED)
    device = TfliteProgram(Path(program), weights, shape.batch_rows, shape.sequence_length, threads=1)
    h = np.zeros((1, shape.embedding), np.float32)
    c = np.zeros((1, shape.hidden), np.float32)
    device.step(1, h, c)
    idle, current = _peak_mb(), _status_mb("VmRSS")
    batch = np.full((shape.batch_rows, shape.sequence_length), 5, np.int32)
    for _ in range(30):
        device.train(batch, batch, 0.1, 1.0)
    device.delta()
    figures = {
        "runtime": runtime_name(),
        "imported_mb": imported,
        "idle_mb": current,
        "idle_peak_mb": idle,
        "training_peak_mb": _peak_mb(),
    }
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")


def _peak_mb() -> float:
    return _status_mb("VmHWM")


def _status_mb(field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return round(int(found.group(1)) / 1024, 1) if found else float("nan")


@click.command()
@click.option("--json", "as_json", is_flag=True)
@click.option("--child", type=(str, str, int), default=None, hidden=True)
def main(*, as_json: bool, child: tuple[str, str, int] | None) -> None:
    """Measure an agent's memory, idle and training."""
    if child is not None:
        _child(*child)
    else:
        show(TITLE, measure(), as_json=as_json, key="agent_memory")


if __name__ == "__main__":
    main()
