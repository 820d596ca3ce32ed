"""The process that trains and exits: ``python -m edge_agent.shell.trainer_process MEMORY_BYTES PRIORITY THREADS``.

Started by :mod:`edge_agent.shell.trainer` only, with an errand on standard input; see
:mod:`edge_agent.shell.trainer_messages`. Between two batches it looks whether it got SIGTERM or whether the agent is
gone, so after either it is gone within one batch.

It makes itself unimportant before it loads anything large: last in line for the processor, first in line for the
kernel when memory runs out, and refused more memory than it was granted.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wire.parameters import Vector

LENGTH = struct.Struct("<Q")
IDLE, NORMAL = "idle", "normal"
"""Priorities: behind everything else on the machine, or like any program (emulated phones, which share a machine)."""

FIRST_TO_DIE = "800"
"""Of 1000: what the kernel adds to our badness when it must end somebody."""


def main() -> None:
    """Do one errand."""
    memory_bytes, priority, threads = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    agent, stops = os.getppid(), []
    signal.signal(signal.SIGTERM, lambda number, _frame: stops.append(number))
    # Libraries may print: whatever they say goes to standard error, and messages alone to the pipe.
    pipe = os.dup(1)
    os.dup2(2, 1)
    _be_modest(memory_bytes, priority)
    data = _receive()

    from edge_agent.session import Produced, SessionTask, train_and_encode
    from edge_agent.shell.tflite import load_program
    from edge_agent.shell.trainer_messages import TrainerFault, TrainerOutcome, decode_errand, encode, fault_of

    fault: TrainerFault | None = None
    done = None
    try:
        errand = decode_errand(data)
        del data
        residual = partial(_residual, pipe)
        task = SessionTask(
            errand.assignment, errand.model, errand.texts, residual, errand.seed, personal=errand.personal
        )
        load = partial(load_program, threads=threads)
        done = train_and_encode(task, load, lambda: bool(stops) or os.getppid() != agent, time.monotonic)
    except Exception as error:  # whatever it is, the agent says it and goes on
        fault = fault_of(error)
    outcome = TrainerOutcome(
        produced=done if isinstance(done, Produced) else None,
        stopped=None if isinstance(done, Produced) else done,
        fault=fault,
        peak_bytes=_peak_bytes(),
    )
    _send(pipe, encode(outcome))
    # At once: taking the interpreter and its libraries down takes longer than a batch, and nothing is left to save.
    os._exit(0)


def _peak_bytes() -> int:
    # Linux' getrusage counts what the forking process had before this program began, too.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _residual(pipe: int) -> Vector | None:
    import numpy as np

    _send(pipe, b"")
    data = _receive()
    return np.frombuffer(data, np.float32) if data else None


def _be_modest(memory_bytes: int, priority: str) -> None:
    # Private memory that is written to: not the mapped libraries and weights, which cost address space only.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold typed text
    if priority == IDLE:
        os.nice(19)
        # Not every sandbox allows it; being nice is enough then.
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_DIE)


def _receive() -> bytes:
    (length,) = LENGTH.unpack(_exactly(LENGTH.size))
    return _exactly(length)


def _exactly(length: int) -> bytes:
    parts = []
    while length:
        part = os.read(0, min(length, 1 << 20))
        if not part:
            sys.exit("the agent went away in the middle of a message")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _send(pipe: int, message: bytes) -> None:
    data = memoryview(LENGTH.pack(len(message)) + message)
    while data:
        data = data[os.write(pipe, data) :]


if __name__ == "__main__":
    main()
