"""Key press to three words, in the agent: the keyboard's suggester on the weights of the model.

Every message is typed letter by letter, a space included, as the page does; each key press is one measurement.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import click

from benchmarks.measuring import median, quantile, show, time_ms
from benchmarks.setting import SEED, setting
from edge_agent.keyboard.reader import Reader
from edge_agent.keyboard.suggestions import Suggester
from edge_agent.shell.keyboard_model import load_keyboard_model
from models import corpora

TITLE = "key press to three suggestions, in the agent"


def measure(key_presses: int = 3_000) -> list[dict[str, Any]]:
    """Rows for each model."""
    typed = [m for messages in corpora.load("personas", SEED).users.values() for m in messages]
    rows = []
    for name in ("tiny", "gboard"):
        at = setting(name)
        suggester = Suggester(Reader(load_keyboard_model(at.model)))
        texts = (message[:length] for message in typed for length in range(1, len(message) + 1))
        times = [time_ms(partial(suggester.suggest, text)) for text in itertools.islice(texts, key_presses)]
        rows.append(
            {
                "model": name,
                "parameters": at.layout.size,
                "key_presses": len(times),
                "p50_ms": median(times),
                "p99_ms": quantile(times, 0.99),
                "max_ms": max(times),
            }
        )
    return rows


@click.command()
@click.option("--key-presses", default=3_000, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(*, key_presses: int, as_json: bool) -> None:
    """Measure the latency of suggestions, p50 and p99."""
    show(TITLE, measure(key_presses), as_json=as_json, key="suggestion")


if __name__ == "__main__":
    main()
