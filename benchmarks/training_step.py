"""One training step on the device runtime, beside TensorFlow's own GradientTape training of the same model.

Both do forward, backward, clipping and SGD on the same batch of 16 x 20, with one thread each, in turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from benchmarks.measuring import in_turn_ms, median, quantile, show
from benchmarks.setting import setting
from edge_agent.shell.tflite import load_program, runtime_name

TITLE = "training step, one thread each, batch 16 x 20"


def measure(steps: int = 40) -> list[dict[str, Any]]:
    """Rows for ``tiny`` and ``gboard``."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    from models.reference import ReferenceModel

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rows = []
    for name in ("tiny", "gboard"):
        at = setting(name)
        x, y = next(iter(at.batches(0)))
        device = load_program(at.model, threads=1)
        reference = ReferenceModel(at.configuration, at.vocabulary.size, at.weights)
        inputs = tf.constant(x), tf.constant(y), tf.constant(0.1), tf.constant(1.0)
        actions: dict[str, Callable[[], object]] = {
            "tflite": partial(device.train, x, y, 0.1, 1.0),
            "tape": partial(_finish, reference.train, inputs),
        }
        times = in_turn_ms(actions, steps)
        ratios = [tape / tflite for tape, tflite in zip(times["tape"], times["tflite"], strict=True)]
        rows.append(
            {
                "model": name,
                "parameters": at.layout.size,
                "runtime": runtime_name(),
                "tflite_ms": median(times["tflite"]),
                "tensorflow_tape_ms": median(times["tape"]),
                "speedup": median(ratios),
                "speedup_p10": quantile(ratios, 0.1),
                "speedup_p90": quantile(ratios, 0.9),
            }
        )
    return rows


def _finish(train: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """One TensorFlow step, waited for."""
    train(*inputs).numpy()


@click.command()
@click.option("--steps", default=40, show_default=True, help="Timed steps of each.")
@click.option("--json", "as_json", is_flag=True)
def main(*, steps: int, as_json: bool) -> None:
    """Time one training step, TFLite beside TensorFlow's GradientTape."""
    show(TITLE, measure(steps), as_json=as_json, key="training_step")


if __name__ == "__main__":
    main()
