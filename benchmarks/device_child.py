"""The part of :mod:`nightjar.benchmarks.device` that runs in an agent's environment, with its packages alone.

``python -m nightjar.benchmarks.device_child keyboard|plain CONFIG FOLDER`` runs the agent of a configuration. On a line
on standard input it prints the agent's memory; an agent with a keyboard then trains and prints the memory of that.
``... steps FOLDER`` does one training step for each line on standard input, and prints its milliseconds.
``... reports CONFIG NUMBER`` runs the agent until it has so many receipts, and prints what it wrote to the disk.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

HELD_BACK = 0.1
"""Share of the messages that the keyboard is evaluated on, as by default."""
FORKED_WITHIN_S = 5.0
TRIALS = 5
"""Number of timed stops."""


def main() -> None:
    """Run the measurement that the command line names."""
    match sys.argv[1:]:
        case ["steps", folder]:
            _steps(Path(folder))
        case ["reports", config, number]:
            _reports(Path(config), int(number))
        case [kind, config, folder]:
            _agent(Path(config), Path(folder), keyboard=kind == "keyboard")
        case _:
            sys.exit(__doc__)


def _agent(config: Path, folder: Path, *, keyboard: bool) -> None:
    import_s = _import_s(keyboard=keyboard)

    import nightjar.edge_agent.assembly
    from nightjar.edge_agent.kept_settings import settings_of
    from nightjar.host.logs import configure_logs

    def measure() -> None:
        try:
            _print({"import_s": import_s, **_idle(folder, keyboard=keyboard)})
            if keyboard:
                _print(_training(folder))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    configure_logs("warning")
    # The agent forks its suggester first: until then, this thread must hold no lock.
    threading.Timer(FORKED_WITHIN_S, measure).start()
    nightjar.edge_agent.assembly.run_agent(settings_of(config, {}))


def _import_s(*, keyboard: bool) -> float:
    """Time of the imports of the agent, and of its suggester, in a process of their own."""
    modules = ["nightjar.edge_agent.assembly", *(["nightjar.edge_agent.suggester.service"] if keyboard else [])]
    code = f"import time; begin = time.perf_counter(); import {', '.join(modules)}; print(time.perf_counter() - begin)"
    from nightjar.host.children import python_command

    done = subprocess.run(python_command("-c", code), stdout=subprocess.PIPE, check=True)  # noqa: S603 - ourselves
    return float(done.stdout)


def _reports(config: Path, number: int) -> None:
    import structlog

    from nightjar.edge_agent import assembly
    from nightjar.edge_agent.kept_settings import settings_of
    from nightjar.host.logs import configure_logs

    after: list[int] = []

    def note(_logger: object, _method: str, event: Any) -> Any:
        # Logged when the receipt is stored and the report is deleted.
        if event["event"] == "resting" and str(event["reason"]).startswith("report of round"):
            after.append(_written_bytes())
            if len(after) == number:
                _print({"written_mb": [(b - a) / 1e6 for a, b in itertools.pairwise(after)]})
                os.kill(os.getpid(), signal.SIGTERM)
        return event

    configure_logs("info")
    structlog.configure(processors=[note, *structlog.get_config()["processors"]])
    assembly.run_agent(settings_of(config, {}))


def _written_bytes() -> int:
    """What this process and its children, also those that have ended, wrote to a disk, as the kernel counts it."""
    told = "".join(_text(Path(f"/proc/{pid}/io")) for pid in (os.getpid(), *_children()))
    return sum(map(int, re.findall(r"^write_bytes: (\d+)$", told, re.MULTILINE)))


def _idle(folder: Path, *, keyboard: bool) -> dict[str, float]:
    """Memory after the parent has seen the agent connected, and a keyboard agent's model loaded."""
    from nightjar.edge_agent.shell.memory import return_free_memory

    held = None if keyboard else _loaded(folder)
    return_free_memory()
    sys.stdin.readline()
    found = _memory()
    del held
    return {"idle_rss_mb": found["Rss"], "idle_pss_mb": found["Pss"]}


def _loaded(folder: Path) -> Any:
    """A loaded model; an agent without a keyboard would load one only to train."""
    from nightjar.edge_agent.shell.keyboard_model import load_keyboard_model
    from nightjar.edge_agent.shell.model_files import exported_model

    model = load_keyboard_model(exported_model(folder))
    state = model.start()
    for token in (1, 5, 6):
        _, state = model.step(token, state)
    return model


def _training(folder: Path) -> dict[str, float | str]:
    from nightjar.edge_agent.shell.model_files import exported_model
    from nightjar.edge_agent.shell.tflite import runtime_name
    from nightjar.edge_agent.shell.trainer import TrainerProcess
    from nightjar.wire.identifiers import Sha256
    from nightjar.wire.messages import TrainingPlan

    model = exported_model(folder)
    peaks: list[int] = []
    train = TrainerProcess(1 << 30, idle_priority=False, report_peak=peaks.append)
    plan = TrainingPlan(learning_rate=0.5, clip_norm=1.0, local_epochs=3, evaluation_share=HELD_BACK, keystrokes=True)
    # A version by another name, so that the keyboard is evaluated with two.
    task = replace(_task(model, plan), announced=replace(model, sha256=Sha256("0" * 64)))
    worker = threading.Thread(target=train, args=(task, lambda: False))
    worker.start()
    most = {"Rss": 0.0, "Pss": 0.0}
    while worker.is_alive():
        now = _memory()
        most = {name: max(most[name], now[name]) for name in most}
        time.sleep(0.01)
    wasted_s = [_wasted_cpu_s(train, model) for _ in range(TRIALS)]
    return {
        "runtime": runtime_name(),
        "training_rss_mb": most["Rss"],
        "training_pss_mb": most["Pss"],
        "trainer_peak_rss_mb": peaks[0] / (1 << 20),
        "wasted_cpu_ms": sorted(wasted_s)[TRIALS // 2] * 1e3,
    }


def _print(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def _task(model: Any, plan: Any) -> Any:  # Any: the types must not be imported before timing starts
    import numpy as np

    from nightjar.benchmarks.session import session_task

    words = model.vocabulary.read_text(encoding="utf-8").split()
    generator = np.random.default_rng(7)
    texts = [" ".join(generator.choice(words[:3000], 8)) for _ in range(600)]
    return session_task(model, plan, texts, 7)


def _wasted_cpu_s(train: Any, model: Any) -> float:
    """CPU time that the training process spends after it is told to stop during a training."""
    from nightjar.wire.messages import TrainingPlan

    noted: list[float] = []
    others = set(_children())
    begun_s = time.monotonic()

    def unplugged() -> bool:
        trainer = set(_children()) - others
        # By then the process is training.
        if not noted and trainer and time.monotonic() - begun_s > 2.0:
            noted.append(_cpu_s(trainer.pop()))
        return bool(noted)

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    plan = TrainingPlan(learning_rate=0.5, clip_norm=1.0, local_epochs=1000)
    train(_task(model, plan), unplugged)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - noted[0]


def _steps(folder: Path) -> None:
    import numpy as np

    from nightjar.edge_agent.shell.model_files import exported_model
    from nightjar.edge_agent.shell.tflite import load_program

    model = exported_model(folder)
    program = load_program(model)
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
    """CPU time of all threads of a process; ``stat`` would count in hundredths of a second."""
    spent = [_text(path).split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(fields[0]) for fields in spent if fields) / 1e9


def _memory() -> dict[str, float]:
    """Memory of the agent, its suggester and its trainer together, MiB."""
    each = [_rollup(pid) for pid in (os.getpid(), *_children())]
    return {name: sum(one.get(name, 0.0) for one in each) for name in ("Rss", "Pss")}


def _rollup(pid: int) -> dict[str, float]:
    """Memory of a process, MiB: ``Rss``, and ``Pss``, which divides a shared page among the processes that share it."""
    found = re.findall(r"^(Rss|Pss):\s+(\d+) kB", _text(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return {name: int(kilobytes) / 1024 for name, kilobytes in found}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""


if __name__ == "__main__":
    main()
