"""Key press to three words, in the agent: the keyboard's suggester on the weights of the model.

Every message is typed letter by letter, a space included, as the page does; each key press is one measurement. Once
alone, and once while the agent's trainer trains the same model in its own process beside it. Processor time stands
beside wall time, because on a machine that others use the latter is theirs.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from functools import partial
from typing import Any

import click

import edge_agent.one_thread  # noqa: F401 - as in the agent's own process
from benchmarks.beside import training_beside
from benchmarks.measuring import median, quantile, show, time_ms
from benchmarks.setting import SEED, setting
from edge_agent.core.own_history import Blended
from edge_agent.keyboard.reader import Reader
from edge_agent.keyboard.suggestions import Suggester
from edge_agent.shell.keyboard_model import load_keyboard_model
from models import corpora

TITLE = "key press to three suggestions, in the agent"


def measure(key_presses: int = 3_000) -> list[dict[str, Any]]:
    """Rows for each model, alone and beside training."""
    typed = [m for messages in corpora.load("personas", SEED).users.values() for m in messages]
    rows = []
    for name, training in itertools.product(("tiny", "gboard"), (False, True)):
        at = setting(name)
        with training_beside(at) if training else contextlib.nullcontext():
            suggester = Suggester(Blended(Reader(load_keyboard_model(at.model)), typed))
            texts = (message[:length] for message in typed for length in range(1, len(message) + 1))
            times, processor_ms = [], []
            for text in itertools.islice(texts, key_presses):
                begin_s = time.thread_time()
                times.append(time_ms(partial(suggester.suggest, text)))
                processor_ms.append((time.thread_time() - begin_s) * 1e3)
        rows.append(
            {
                "model": name,
                "parameters": at.layout.size,
                "training_beside": training,
                "key_presses": len(times),
                "p50_ms": median(times),
                "p99_ms": quantile(times, 0.99),
                "max_ms": max(times),
                "p99_processor_ms": quantile(processor_ms, 0.99),
            }
        )
    return rows


@click.command()
@click.option("--key-presses", default=3_000, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(*, key_presses: int, as_json: bool) -> None:
    """Measure the latency of suggestions, p50 and p99."""
    show(TITLE, measure(key_presses), as_json=as_json, key="suggestion")


if __name__ == "__main__":
    main()
