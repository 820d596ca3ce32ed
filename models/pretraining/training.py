"""Central training that survives a kill: the same weights, to the bit, with or without one.

Plain SGD with clipped gradients, as devices train (:mod:`nightjar.models.training`), over examples that are packed anew
in each pass. Rate and clipping are of :data:`PLANS`. A checkpoint every few seconds has the weights and the number of
steps; everything else follows from the seed. This module imports TensorFlow.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import tensorflow as tf

from nightjar.host.files import READABLE, replace_file
from nightjar.models.batches import Batches, Piece, pack_pieces
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.initial import initial_weights
from nightjar.models.program import KeyboardProgram
from nightjar.wire.parameters import Vector

CHECKPOINT_EVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class PretrainingPlan:
    """How a configuration is trained."""

    passes: float
    learning_rate: float
    clip_norm: float


PLANS = {
    "tiny": PretrainingPlan(passes=6.0, learning_rate=6.0, clip_norm=0.5),
    "gboard": PretrainingPlan(passes=4.0, learning_rate=6.0, clip_norm=0.5),
}


def falling(done: float) -> float:
    """Share of the learning rate after a share of the steps: it falls linearly to a hundredth.

    >>> falling(0.0), falling(0.5), falling(1.0)
    (1.0, 0.5, 0.01)
    """
    return max(0.01, 1.0 - done)


def train(
    shape: ModelConfiguration,
    vocabulary_size: int,
    examples: Sequence[Piece],
    plan: PretrainingPlan,
    seed: int,
    checkpoint: Path,
    progress: Callable[[int, int], None],
    stop: Callable[[int], None] = lambda _step: None,
) -> Vector:
    """Train random weights on examples; returns (n,) float32.

    Begins at the file ``checkpoint`` if that is of the same training, and keeps it up to date. ``progress`` is called
    after each step with the number of steps done and of all; ``stop`` before each step, for tests that break off.

    Raises:
        OSError: the checkpoint cannot be written.
    """
    tf.config.experimental.enable_op_determinism()
    mark = _mark(shape, vocabulary_size, examples, plan, seed)
    done, weights = _resumed(checkpoint, mark) or (0, initial_weights(shape, vocabulary_size, seed))
    program = KeyboardProgram(shape, vocabulary_size)
    program.restore(tf.constant(weights))
    step_of = program.traced("train")
    per_pass = len(_packed(shape, examples, seed, 0))
    steps = max(1, int(plan.passes * per_pass))
    saved_s = time.monotonic()
    for x, y in _batches(shape, examples, seed, done, steps):
        stop(done)
        rate = np.float32(plan.learning_rate * falling(done / steps))
        clip = tf.constant([np.float32(plan.clip_norm)])
        step_of(x=tf.constant(x), y=tf.constant(y), learning_rate=tf.constant([rate]), clip_norm=clip)
        done += 1
        if time.monotonic() - saved_s > CHECKPOINT_EVERY_S:
            _save(checkpoint, mark, done, np.array(program.save()["weights"]))
            saved_s = time.monotonic()
        progress(done, steps)
    trained: Vector = np.array(program.save()["weights"])
    _save(checkpoint, mark, steps, trained)
    return trained


def _batches(
    shape: ModelConfiguration, examples: Sequence[Piece], seed: int, done: int, steps: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches of the steps that are not done yet; the number in a pass differs a little, as packing does."""
    number = begun = 0
    while begun < steps:
        packed = _packed(shape, examples, seed, number)
        for place in range(max(0, done - begun), min(len(packed), steps - begun)):
            yield packed.x[place], packed.y[place]
        begun += len(packed)
        number += 1


def _packed(shape: ModelConfiguration, examples: Sequence[Piece], seed: int, number: int) -> Batches:
    """The batches of one pass."""
    generator = np.random.default_rng(np.random.SeedSequence([seed, number]))
    shuffled = [examples[i] for i in generator.permutation(len(examples)).tolist()]
    return pack_pieces(shuffled, shape.batch_rows, shape.sequence_length)


def _mark(shape: ModelConfiguration, size: int, examples: Sequence[Piece], plan: PretrainingPlan, seed: int) -> str:
    """Hash of what a training depends on."""
    digest = hashlib.sha256(msgspec.json.encode((shape, size, plan, seed)))
    for inputs, targets in examples:
        digest.update(np.array([inputs, targets], "<i4").tobytes())
    return digest.hexdigest()


def _save(path: Path, mark: str, done: int, weights: Vector) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, mark=np.array(mark), done=np.array(done), weights=weights)
    replace_file(path, buffer.getvalue(), READABLE)


def _resumed(path: Path, mark: str) -> tuple[int, Vector] | None:
    """Steps done and weights of a checkpoint of this training; None if there is none."""
    try:
        with np.load(path) as found:
            if str(found["mark"]) != mark:
                return None
            return int(found["done"]), found["weights"]
    except (OSError, ValueError, KeyError):
        return None
