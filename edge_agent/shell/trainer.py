"""Runs each training session in a child process: its memory is freed at exit, and its crash does not kill the agent.

A new process is started for each session (0.3 s on a desktop); it is never forked from the agent, which has threads.
It reads the messages itself, so that the agent, which has the network, never holds what was typed; and it opens no
socket but a local one.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from nightjar.edge_agent.core.faults import error_of
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.session.task import Produced, SessionTask, StoredMessages
from nightjar.edge_agent.session.trainer_messages import decode_outcome, encode
from nightjar.edge_agent.shell.trainer_process import IDLE, LENGTH, NORMAL, send
from nightjar.host.children import python_command
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import DropoutCause

POLL_S = 0.01
"""Longest delay before a stop is passed on: a fraction of a batch's time on any device."""
LAST_BATCH_S = 30.0
"""A process that has not exited this long after a stop request is hung, and is killed."""

_ENVIRONMENT = {
    # One session uses one interpreter thread: other thread pools would only hold memory.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    # Allocate large tensors straight from the system, so that they return to it when freed.
    "MALLOC_MMAP_THRESHOLD_": "65536",
}


@dataclass(frozen=True, slots=True)
class TrainerProcess:
    """Implements :data:`nightjar.edge_agent.session.task.Trainer`; one session at a time.

    Attributes:
        memory_bytes: limit of the process's private memory; a session that needs more fails.
        idle_priority: run at a lower priority than everything else on the machine.
        messages: what the process reads besides the source of a session; None for nothing.
        report_peak: called with the peak resident memory of each process, in bytes.
    """

    memory_bytes: int
    idle_priority: bool = True
    messages: StoredMessages | None = None
    report_peak: Callable[[int], None] = lambda _bytes: None

    def __call__(self, task: SessionTask, should_stop: Callable[[], bool]) -> Produced | TrainingStopped:
        """Run a session, and wait for it.

        Raises:
            UnavailableError: the process could not be started, or died.
            NightjarError: the session raised it in the process.
        """
        with self._process() as process:
            try:
                stopped, data = _converse(process, encode(replace(task, messages=self.messages)), should_stop)
            finally:
                if process.poll() is None:
                    process.kill()
        if not data and stopped:
            return TrainingStopped(DropoutCause.IN_USE, "asked to stop")
        try:
            outcome = decode_outcome(data)
        except msgspec.MsgspecError as error:
            msg = f"the training process {_ending(process.returncode)} without an outcome"
            raise UnavailableError(msg) from error
        self.report_peak(outcome.peak_bytes)
        if outcome.fault is not None:
            raise error_of(outcome.fault)
        done = outcome.produced or outcome.stopped
        if done is None:
            msg = "the training process ended without an outcome"
            raise UnavailableError(msg)
        return done

    def _process(self) -> subprocess.Popen[bytes]:
        limits = [str(self.memory_bytes), IDLE if self.idle_priority else NORMAL]
        try:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and module
                python_command("-m", "nightjar.edge_agent.shell.trainer_process", *limits),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # the text of a traceback may quote what was typed
                env=os.environ | _ENVIRONMENT,
                bufsize=0,
            )
        except OSError as error:
            msg = f"the training process could not be started: {error}"
            raise UnavailableError(msg) from error


def _converse(process: subprocess.Popen[bytes], task: bytes, should_stop: Callable[[], bool]) -> tuple[bool, bytes]:
    """Send the task; pass a stop on.

    Returns:
        Whether the process was asked to stop; and its last message, empty if it exited without one.
    """
    if process.stdin is None or process.stdout is None:
        msg = "the training process has no pipes"
        raise UnavailableError(msg)
    into, out_of = process.stdin.fileno(), process.stdout.fileno()
    received = bytearray()
    stopped_at_s: float | None = None
    _send(into, task)
    while True:
        readable, _, _ = select.select([out_of], [], [], POLL_S)
        if readable:
            part = os.read(out_of, 1 << 20)
            if not part:
                process.wait()
                return stopped_at_s is not None, bytes(received[LENGTH.size :])
            received += part
        if stopped_at_s is None:
            if should_stop():
                stopped_at_s = time.monotonic()
                process.terminate()
        elif time.monotonic() - stopped_at_s > LAST_BATCH_S:
            process.kill()


def _send(descriptor: int, message: bytes) -> None:
    # If the process died, its last message or its exit status says more than this error.
    with contextlib.suppress(BrokenPipeError):
        send(descriptor, message)


def _ending(status: int) -> str:
    if status < 0:
        perhaps = "9: the system, short of memory; 6 and 11: its memory limit, or a defect of the TFLite runtime"
        return f"was killed by signal {-status} (perhaps {perhaps})"
    return f"exited with status {status}"
