"""The training process on the real runtime: same bytes as in this process, and nothing that it does hurts the agent."""

import contextlib
import dataclasses
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from nightjar.edge_agent.core.faults import error_of, fault_of
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.session.session import in_this_process
from nightjar.edge_agent.session.task import Produced, SessionTask, StoredMessages
from nightjar.edge_agent.session.trainer_messages import decode_task, encode
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.memory_file import MemoryFile
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.edge_agent.shell.trainer import TrainerProcess
from nightjar.models.source import Source
from nightjar.wire.errors import ConfigError, IntegrityError, NightjarError, RemoteProtocolError, UnavailableError
from nightjar.wire.messages import CodecChoice, DropoutCause, TrainingPlan, Work
from tests.edge_agent.fakes import assignment

pytestmark = pytest.mark.tflite

PLENTY_BYTES = 1 << 30
FOR_EVER = TrainingPlan(learning_rate=0.5, clip_norm=1.0, local_epochs=1000)


@pytest.fixture
def task(exported):
    generator = np.random.default_rng(2)
    texts = [" ".join(generator.choice(exported.words[:30], 6)) for _ in range(80)]
    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, local_epochs=2)
    codec = CodecChoice(density=0.02)
    return SessionTask(assignment(exported.model, 5, plan=plan, codec=codec), exported.model, Source(texts), seed=3)


def with_plan(task, plan):
    asked = assignment(task.model, 5, plan=plan)
    return SessionTask(asked, task.model, task.source, task.seed)


def never():
    return False


OTHERS: set[int] = set()
"""Children of this process that were there before: servers and browsers of other tests."""


def children():
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            found.update(map(int, path.read_text().split()))
    return found - OTHERS


@pytest.fixture(autouse=True)
def leave_other_children_alone():
    OTHERS.clear()
    OTHERS.update(children())


def test_a_task_survives_the_pipe(task):
    task = dataclasses.replace(task, seed=2**63 - 1)
    assert dataclasses.astuple(decode_task(encode(task))) == dataclasses.astuple(task)


def test_the_process_gives_the_bytes_that_this_process_gives(task):
    peaks = []
    theirs = TrainerProcess(PLENTY_BYTES, report_peak=peaks.append)(task, never)
    ours = in_this_process(load_program, lambda: 0.0)(task, never)
    assert isinstance(theirs, Produced)
    # All but the seconds in the header and the checksum at the end.
    assert theirs.report.frame[48:-4] == ours.report.frame[48:-4]
    assert (theirs.steps, theirs.loss, theirs.num_examples) == (ours.steps, ours.loss, ours.num_examples)
    assert 10e6 < peaks[0] < PLENTY_BYTES
    assert not children()


def test_the_process_reads_the_messages_itself(task, tmp_path):
    stored = StoredMessages(tmp_path / "agent.db", Caps(messages=100, total_bytes=100_000, age_s=1e6))
    database = Database(stored.database, stored.caps, SystemClock())
    database.add_once("all", task.source.texts)
    texts = database.texts()
    database.close()
    theirs = TrainerProcess(PLENTY_BYTES, messages=stored)(dataclasses.replace(task, source=Source()), never)
    ours = in_this_process(load_program, lambda: 0.0)(dataclasses.replace(task, source=Source(texts)), never)
    assert theirs.report.frame[48:-4] == ours.report.frame[48:-4]


def test_the_process_trains_from_weights_in_memory(task):
    data = task.model.weights.read_bytes()
    held = MemoryFile(task.model.manifest.weights.sha256, data)
    in_memory = dataclasses.replace(task, model=dataclasses.replace(task.model, weights=held.path))
    theirs = TrainerProcess(PLENTY_BYTES)(in_memory, never)
    ours = in_this_process(load_program, lambda: 0.0)(task, never)
    assert theirs.report.frame[48:-4] == ours.report.frame[48:-4]


def test_the_process_tries_a_model_without_training_it(task):
    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, evaluation_share=0.3)
    asked = assignment(task.model, 5, plan=plan, work=Work.EVALUATE)
    task = dataclasses.replace(task, assignment=asked)
    theirs = TrainerProcess(PLENTY_BYTES)(task, never)
    ours = in_this_process(load_program, lambda: 0.0)(task, never)
    assert theirs.steps == 0
    assert theirs.evaluation == ours.evaluation
    assert theirs.evaluation.counted > 0
    assert not children()


def test_the_process_that_computes_a_program_has_no_network(task):
    """A program that was crafted for the interpreter's own faults reaches nobody from there."""
    begun, found = time.monotonic(), {filters_of("self")}

    def confined():
        for pid in children():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.add(filters_of(pid))
        return len(found) > 1 or time.monotonic() - begun > 60

    TrainerProcess(PLENTY_BYTES)(with_plan(task, FOR_EVER), confined)
    assert max(found) == filters_of("self") + 1, "it could open a socket"


def filters_of(process):
    """How many filters of system calls a process has; a container brings some."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"^Seccomp_filters:\t(\d+)$", status, re.MULTILINE)[1])


def test_a_stop_is_passed_on_and_the_process_is_gone(task):
    asked = []

    def soon():
        asked.append(time.monotonic())
        return asked[-1] - asked[0] > 1.0

    stopped = TrainerProcess(PLENTY_BYTES)(with_plan(task, FOR_EVER), soon)
    assert isinstance(stopped, TrainingStopped)
    assert stopped.cause is DropoutCause.IN_USE
    assert not children()


def test_a_stop_before_it_began_trains_nothing(task):
    assert isinstance(TrainerProcess(PLENTY_BYTES)(with_plan(task, FOR_EVER), lambda: True), TrainingStopped)


def test_too_little_memory_is_a_fault_of_the_session_and_not_of_the_agent(task):
    with pytest.raises(NightjarError):
        TrainerProcess(30 << 20)(task, never)
    assert not children()


def test_a_process_that_is_killed_is_an_unavailable_trainer(task):
    def kill():
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        return False

    with pytest.raises(UnavailableError, match="signal 9"):
        TrainerProcess(PLENTY_BYTES)(with_plan(task, FOR_EVER), kill)


def test_a_fault_comes_back_as_what_it_was(task):
    asked = assignment(task.model, 5, codec=CodecChoice(name="none-such"))
    with pytest.raises(RemoteProtocolError) as here:
        in_this_process(load_program, lambda: 0.0)(SessionTask(asked, task.model, task.source, 1), never)
    with pytest.raises(RemoteProtocolError) as there:
        TrainerProcess(PLENTY_BYTES)(SessionTask(asked, task.model, task.source, 1), never)
    assert (str(there.value), there.value.code) == (str(here.value), here.value.code)


@pytest.mark.parametrize("error", [ConfigError("a"), IntegrityError("b"), RemoteProtocolError("c", code="program")])
def test_errors_keep_their_kind_text_and_code(error):
    again = error_of(fault_of(error))
    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)


def test_an_unforeseen_error_is_told_without_its_text():
    assert "typed" not in str(error_of(fault_of(ValueError("what was typed"))))


def test_too_little_memory_is_told_with_what_to_do():
    assert "raise it" in str(error_of(fault_of(MemoryError())))
