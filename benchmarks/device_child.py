"""The half of :mod:`benchmarks.device` that runs in an agent's environment: it imports what an agent has, and no more.

``python -m benchmarks.device_child memory FOLDER`` prints figures as JSON. ``... steps FOLDER`` does one training step
for each line on standard input, and prints its milliseconds.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

SOME_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
"""A public key of Ed25519: RFC 8032's first test vector."""
TRIALS = 5
"""Stops that are timed."""


def main() -> None:
    """Measure one thing."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "memory":
        sys.stdout.write(json.dumps(_memory(folder)) + "\n")
    else:
        _steps(folder)


def _memory(folder: Path) -> dict[str, float | str]:
    begin = time.perf_counter()
    import edge_agent.assembly
    import edge_agent.keyboard.app
    import edge_agent.keyboard.server  # noqa: F401

    import_s = time.perf_counter() - begin

    from edge_agent.shell.keyboard_model import load_keyboard_model
    from edge_agent.shell.memory import return_free_memory
    from edge_agent.shell.model_files import exported_model
    from edge_agent.shell.tflite import runtime_name
    from edge_agent.shell.trainer import TrainerProcess
    from wire.messages import TrainingPlan

    model = exported_model(folder)
    _check_a_signature(model.sha256)
    keyboard = load_keyboard_model(model)
    state = keyboard.start()
    for token in (1, 5, 6):
        _, state = keyboard.step(token, state)
    return_free_memory()
    idle_mb = _rollup(os.getpid())["Rss"]

    peaks: list[int] = []
    train = TrainerProcess(1 << 30, idle_priority=False, report_peak=peaks.append)
    task = _task(model, TrainingPlan(learning_rate=0.5, clip_norm=1.0, local_epochs=3))
    worker = threading.Thread(target=train, args=(task, lambda: False))
    worker.start()
    together_mb = 0.0
    while worker.is_alive():
        together_mb = max(together_mb, sum(_rollup(pid).get("Pss", 0.0) for pid in (os.getpid(), *_children())))
        time.sleep(0.01)
    wasted_s = [_wasted_cpu_s(train, model) for _ in range(TRIALS)]
    return {
        "runtime": runtime_name(),
        "import_s": import_s,
        "idle_rss_mb": idle_mb,
        "training_rss_mb": together_mb,
        "trainer_peak_rss_mb": peaks[0] / (1 << 20),
        "wasted_cpu_ms": sorted(wasted_s)[TRIALS // 2] * 1e3,
    }


def _check_a_signature(manifest: Any) -> None:
    """As an agent does before it fetches a model: what stays in memory of it counts."""
    from edge_agent.shell.signatures import holds_in_a_process
    from wire.identifiers import Population
    from wire.signatures import signed_bytes

    holds_in_a_process(SOME_KEY, "0" * 128, signed_bytes(Population("benchmark"), manifest))


def _task(model: Any, plan: Any) -> Any:  # the types must not be imported before the clock runs
    import numpy as np

    from edge_agent.session import SessionTask
    from wire.messages import Assignment, CodecChoice

    words = model.vocabulary.read_text(encoding="utf-8").split()
    generator = np.random.default_rng(7)
    texts = [" ".join(generator.choice(words[:3000], 8)) for _ in range(600)]
    asked = Assignment(
        task="benchmark",
        round=1,
        attempt=1,
        version=model.manifest.version,
        manifest=model.sha256,
        codec=CodecChoice(error_feedback=True),
        plan=plan,
        report_deadline_s=600,
    )
    residual = np.zeros(model.manifest.layout.size, np.float32)
    return SessionTask(asked, model, texts, residual.copy, seed=7)


def _wasted_cpu_s(train: Any, model: Any) -> float:
    """Processor time that the training process spent after the agent said stop, in the middle of a training."""
    from wire.messages import TrainingPlan

    noted: list[float] = []
    begun_s = time.monotonic()

    def unplugged() -> bool:
        children = _children()
        # Long enough for the process to be loaded and training.
        if not noted and children and time.monotonic() - begun_s > 2.0:
            noted.append(_cpu_s(children[0]))
        return bool(noted)

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    train(_task(model, TrainingPlan(learning_rate=0.5, clip_norm=1.0, local_epochs=1000)), unplugged)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - noted[0]


def _steps(folder: Path) -> None:
    import numpy as np

    from edge_agent.shell.model_files import exported_model
    from edge_agent.shell.tflite import load_program

    model = exported_model(folder)
    program = load_program(model, threads=1)
    shape = (model.manifest.batch_rows, model.manifest.sequence_length)
    batch = np.random.default_rng(7).integers(4, model.manifest.vocabulary_size, shape).astype(np.int32)
    for _ in sys.stdin:
        begin = time.perf_counter()
        program.train(batch, batch, 0.1, 1.0)
        sys.stdout.write(f"{(time.perf_counter() - begin) * 1e3}\n")
        sys.stdout.flush()


def _children() -> list[int]:
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in _text(path).split()]


def _cpu_s(pid: int) -> float:
    """Processor time of all threads of a process; ``stat`` would count in hundredths of a second."""
    spent = [_text(path).split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(fields[0]) for fields in spent if fields) / 1e9


def _rollup(pid: int) -> dict[str, float]:
    """Memory of a process, MB: ``Rss``, and ``Pss``, in which a page that two processes share counts half for each."""
    found = re.findall(r"^(Rss|Pss):\s+(\d+) kB", _text(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return {name: int(kilobytes) / 1024 for name, kilobytes in found}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process ended
        return ""


if __name__ == "__main__":
    main()
