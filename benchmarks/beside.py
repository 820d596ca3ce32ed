"""Training beside what is measured: the agent's own trainer, in its own process, for as long as it takes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from benchmarks.setting import SEED, Setting
from edge_agent.core.training import Stopped
from edge_agent.session import SessionTask
from edge_agent.shell.trainer import TrainerProcess
from models import corpora
from wire.messages import Assignment, CodecChoice, TrainingPlan

MEMORY_BYTES = 1 << 30
STARTS_WITHIN_S = 8.0
"""The process has imported everything, loaded the program and done some batches by then."""


@contextlib.contextmanager
def training_beside(at: Setting) -> Iterator[None]:
    """Train in another process until the end of the block.

    Raises:
        RuntimeError: it ended before that, so that nothing was measured beside it.
    """
    texts = [message for messages in corpora.load("personas", SEED).users.values() for message in messages]
    plan = TrainingPlan(learning_rate=0.3, clip_norm=1.0, local_epochs=1000)
    task = SessionTask(
        assignment=Assignment(
            task="benchmark",
            round=1,
            attempt=1,
            version=at.model.manifest.version,
            manifest=at.model.sha256,
            codec=CodecChoice(name="topk-4", density=0.01),
            plan=plan,
            report_deadline_s=3600.0,
        ),
        model=at.model,
        texts=texts,
        residual=lambda: None,
        seed=SEED,
    )
    end = threading.Event()
    outcome: list[object] = []

    def train() -> None:
        try:
            outcome.append(TrainerProcess(MEMORY_BYTES)(task, end.is_set))
        except Exception as error:
            outcome.append(error)

    trainer = threading.Thread(target=train, name="training beside")
    trainer.start()
    try:
        time.sleep(STARTS_WITHIN_S)
        yield
        early = bool(outcome)
    finally:
        end.set()
        trainer.join()
    if early or not isinstance(outcome[0], Stopped):
        msg = f"expected training until it was stopped, got {outcome[0]!r}"
        raise RuntimeError(msg)
