"""The process that trains and exits: ``python -m nightjar.edge_agent.shell.trainer_process MEMORY_BYTES PRIORITY``.

Started only by :mod:`nightjar.edge_agent.shell.trainer`, with a task on standard input; see
:mod:`nightjar.edge_agent.session.trainer_messages`. After each batch it checks for SIGTERM and for the death of the
agent, so it exits within one batch of either.

Before it loads anything large it gives up rights: it has no network, is last in line for the processor, first to be
killed when memory runs out, and limited to the memory that it was granted. The typed messages it reads itself.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nightjar.host.confinement import forbid_network

LENGTH = struct.Struct("<Q")
IDLE, NORMAL = "idle", "normal"
"""Priorities: below everything else on the machine, or normal (for emulated phones, which share a machine)."""

FIRST_TO_DIE = "800"
"""OOM score adjustment, of at most 1000: makes the kernel kill this process first when memory runs out."""


def main() -> None:
    """Run one session."""
    memory_bytes, priority = int(sys.argv[1]), sys.argv[2]
    agent, stops = os.getppid(), []
    signal.signal(signal.SIGTERM, lambda number, _frame: stops.append(number))
    # Libraries may print: redirect their output to standard error, so that only our messages reach the pipe.
    pipe = os.dup(1)
    os.dup2(2, 1)
    forbid_network()
    _be_modest(memory_bytes, priority)
    data = _receive()

    from nightjar.edge_agent.core.faults import Fault, fault_of
    from nightjar.edge_agent.session.session import train_and_encode
    from nightjar.edge_agent.session.task import Produced, SessionTask
    from nightjar.edge_agent.session.trainer_messages import TrainerOutcome, decode_task, encode
    from nightjar.edge_agent.shell.stored_messages import with_messages
    from nightjar.edge_agent.shell.tflite import load_program
    from nightjar.wire.frame import KeyboardEvaluation

    def evaluate_later(
        task: SessionTask, should_stop: Callable[[], bool], now_s: Callable[[], float]
    ) -> KeyboardEvaluation | None:
        # The keyboard's modules are loaded now, and not before the training, which needs the memory.
        from nightjar.edge_agent.shell.keyboard_evaluation import evaluate_keyboard

        return evaluate_keyboard(task, should_stop, now_s)

    fault: Fault | None = None
    done = None
    try:
        task = with_messages(decode_task(data))
        del data
        done = train_and_encode(
            task,
            load_program,
            lambda: bool(stops) or os.getppid() != agent,
            time.monotonic,
            evaluate_later,
        )
    except Exception as error:  # the agent logs any error and carries on
        fault = fault_of(error)
    outcome = TrainerOutcome(
        produced=done if isinstance(done, Produced) else None,
        stopped=None if isinstance(done, Produced) else done,
        fault=fault,
        peak_bytes=_peak_bytes(),
    )
    send(pipe, encode(outcome))
    # Exit at once: shutting down the interpreter and its libraries takes longer than a batch, and nothing is unsaved.
    os._exit(0)


def _peak_bytes() -> int:
    # On Linux, getrusage also counts the memory of the forking process from before this program started.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _be_modest(memory_bytes: int, priority: str) -> None:
    # Limits private writable memory, not the mapped libraries and weights, which cost address space only.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold typed text
    if priority == IDLE:
        os.nice(19)
        # Not every sandbox allows this; the nice level is enough then.
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_DIE)


def _receive() -> bytes:
    (length,) = LENGTH.unpack(_exactly(LENGTH.size))
    return _exactly(length)


def _exactly(length: int) -> bytes:
    data = sys.stdin.buffer.read(length)
    if len(data) < length:
        sys.exit("the agent went away in the middle of a message")
    return data


def send(pipe: int, message: bytes) -> None:
    """Send a message after its length."""
    for data in (LENGTH.pack(len(message)), message):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(pipe, rest) :]


if __name__ == "__main__":
    main()
