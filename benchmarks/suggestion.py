"""Measures the latency from key press to three suggestions in the agent's keyboard.

Messages are typed key by key, spaces included, as on the page; each key press is one measurement. One run is without
training; in the other, the agent's trainer process trains the same model at the same time. CPU time is given as well as
wall time, because wall time depends on the load of other users.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import click

import nightjar.host.one_thread  # noqa: F401 - as in the agent's process
from nightjar.benchmarks.keyboard import mixed
from nightjar.benchmarks.measuring import quantile, show, time_ms
from nightjar.benchmarks.session import session_task
from nightjar.benchmarks.setting import LANGUAGE, SEED, Setting, setting
from nightjar.edge_agent.core.own_history import Blended
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.edge_agent.shell.keyboard_model import read_lexicon_of
from nightjar.edge_agent.shell.trainer import TrainerProcess
from nightjar.models import corpora
from nightjar.wire.messages import TrainingPlan

TITLE = "key press to three suggestions, in the agent"
MEMORY_BYTES = 1 << 30
STARTS_WITHIN_S = 8.0
"""By then the trainer has imported everything, loaded the program and trained some batches."""


def measure(key_presses: int = 3_000) -> list[dict[str, Any]]:
    """Rows for each model, without and with concurrent training."""
    typed = [m for messages in corpora.load("personas", SEED).users.values() for m in messages]
    rows = []
    for name, training in itertools.product(("tiny", "gboard"), (False, True)):
        at = setting(name)
        with training_beside(at) if training else contextlib.nullcontext():
            suggester = Suggester(Blended(mixed(at.model, typed), typed), lexicon=partial(read_lexicon_of, at.model))
            texts = (message[:length] for message in typed for length in range(1, len(message) + 1))
            times, processor_ms = [], []
            for text in itertools.islice(texts, key_presses):
                begin_s = time.thread_time()
                times.append(time_ms(partial(suggester.suggest, text, language=LANGUAGE)))
                processor_ms.append((time.thread_time() - begin_s) * 1e3)
        rows.append(
            {
                "model": name,
                "parameters": at.model.manifest.layout.size,
                "training_beside": training,
                "key_presses": len(times),
                "p50_ms": median(times),
                "p99_ms": quantile(times, 0.99),
                "max_ms": max(times),
                "p99_processor_ms": quantile(processor_ms, 0.99),
            }
        )
    return rows


@contextlib.contextmanager
def training_beside(at: Setting) -> Iterator[None]:
    """Train in another process until the end of the block.

    Raises:
        RuntimeError: training ended early, so the measurement was without load.
    """
    texts = [message for messages in corpora.load("personas", SEED).users.values() for message in messages]
    plan = TrainingPlan(learning_rate=0.3, clip_norm=1.0, local_epochs=1000)
    task = session_task(at.model, plan, texts, SEED)
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
    if early or not isinstance(outcome[0], TrainingStopped):
        msg = f"expected training to run until it was stopped, got {outcome[0]!r}"
        raise RuntimeError(msg)


@click.command()
@click.option("--key-presses", default=3_000, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(*, key_presses: int, as_json: bool) -> None:
    """Measure the latency of suggestions."""
    show(TITLE, measure(key_presses), as_json=as_json, key="suggestion")


if __name__ == "__main__":
    main()
