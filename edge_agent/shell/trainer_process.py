"""The process that trains and exits: ``python -m edge_agent.shell.trainer_process MEMORY_BYTES PRIORITY THREADS``.

Started by :mod:`edge_agent.shell.trainer` only. The task comes on standard input, its length first; the outcome goes to
standard output. When standard input ends before that, the agent wants it to stop, or died: between two batches it is
looked at, so either way this process is gone after one batch.

It makes itself unimportant before it loads anything large: last in line for the processor, first in line for the
kernel when memory runs out, and refused more memory than it was granted.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import struct
import sys
import time
from functools import partial
from pathlib import Path

LENGTH = struct.Struct("<Q")
IDLE, NORMAL = "idle", "normal"
"""Priorities: behind everything else on the machine, or like any program (emulated phones, which share a machine)."""

FIRST_TO_DIE = "800"
"""Of 1000: what the kernel adds to our badness when it must end somebody."""


def main() -> None:
    """Do one task."""
    memory_bytes, priority, threads = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # Libraries may print: whatever they say goes to standard error, the outcome alone to the pipe.
    pipe = os.dup(1)
    os.dup2(2, 1)
    _be_modest(memory_bytes, priority)
    (length,) = LENGTH.unpack(_read(LENGTH.size))
    data = _read(length)

    from edge_agent.session import Produced, train_and_encode
    from edge_agent.shell.tflite import load_program
    from edge_agent.shell.trainer_messages import Fault, Outcome, decode_task, encode, fault_of

    fault: Fault | None = None
    done = None
    try:
        load = partial(load_program, threads=threads)
        done = train_and_encode(decode_task(data), load, _asked_to_stop, time.monotonic)
    except Exception as error:  # whatever it is, the agent says it and goes on
        fault = fault_of(error)
    outcome = Outcome(
        produced=done if isinstance(done, Produced) else None,
        stopped=None if done is None or isinstance(done, Produced) else done,
        fault=fault,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    with os.fdopen(pipe, "wb") as out:
        out.write(encode(outcome))


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


def _read(length: int) -> bytes:
    """Exactly so many bytes, straight from the descriptor: nothing may wait in a buffer of ours."""
    parts = []
    while length:
        part = os.read(0, min(length, 1 << 20))
        if not part:
            sys.exit("the agent went away before it said what to do")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _asked_to_stop() -> bool:
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable)


if __name__ == "__main__":
    main()
