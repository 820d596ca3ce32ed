from __future__ import annotations

import numpy as np
import pytest

from nightjar.models.batches import Batches, pack
from nightjar.models.configurations import ModelConfiguration
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.parameters import Vector
from tests.lazily import NEEDS_TENSORFLOW, Lazy
from tests.skips import NO_GPU

pytestmark = NEEDS_TENSORFLOW
evaluation, training, tf = Lazy("nightjar.models.evaluation"), Lazy("nightjar.models.training"), Lazy("tensorflow")


def test_central_training_learns_and_leaves_its_input(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    before = weights.copy()
    trained = training.train_centrally(
        weights, shape, vocabulary_size, batches, steps=200, learning_rate=3.0, clip_norm=1.0
    )
    assert (weights == before).all()
    old, new = (evaluation.evaluate(w, shape, vocabulary_size, batches) for w in (weights, trained))
    assert old.loss == pytest.approx(np.log(vocabulary_size), abs=0.05)
    assert old.counted == new.counted == batches.counted_targets
    assert new.loss < old.loss - 2
    assert new.top1 > old.top1 + 0.1
    assert 0 <= new.top1 <= new.top3 <= 1
    for found in (old, new):
        first, three = found.hits[: len(found.hits) // 2], found.hits[len(found.hits) // 2 :]
        assert len(first) == len(three) == -(-found.counted // 8)
        assert int.from_bytes(first).bit_count() == round(found.top1 * found.counted)
        assert int.from_bytes(three).bit_count() == round(found.top3 * found.counted)
        assert int.from_bytes(first) & ~int.from_bytes(three) == 0, "the best suggestion is among the best three"


def test_central_training_is_the_same_every_time(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    a, b = (
        training.train_centrally(weights, shape, vocabulary_size, batches, steps=3, learning_rate=1.0, clip_norm=1.0)
        for _ in range(2)
    )
    assert np.allclose(a, b, atol=1e-6)
    none = training.train_centrally(weights, shape, vocabulary_size, batches, steps=0, learning_rate=1.0, clip_norm=1.0)
    assert (none == weights).all()


def test_nothing_to_evaluate_is_zero_and_nothing_to_train_on_is_refused(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector
) -> None:
    nothing = pack([], shape.batch_rows, shape.sequence_length)
    assert evaluation.evaluate(weights, shape, vocabulary_size, nothing) == evaluation.Metrics(0.0, 0.0, 0.0, 0, b"")
    with pytest.raises(LocalProtocolError, match="at least one batch"):
        training.train_centrally(weights, shape, vocabulary_size, nothing, steps=1, learning_rate=1.0, clip_norm=1.0)


def test_weights_of_another_length_are_refused(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    with pytest.raises(LocalProtocolError):
        evaluation.evaluate(weights[:-1], shape, vocabulary_size, batches)


@pytest.mark.gpu
def test_figures_on_a_gpu_are_those_of_the_cpu(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    if not tf.config.list_physical_devices("GPU"):
        pytest.skip(f"TensorFlow {NO_GPU}")
    trained, found = [], []
    for device in ("/CPU:0", "/GPU:0"):
        with tf.device(device):
            trained.append(
                training.train_centrally(
                    weights, shape, vocabulary_size, batches, steps=100, learning_rate=3.0, clip_norm=1.0
                )
            )
            # Both evaluate the weights of the CPU, and train their own.
            found.append(evaluation.evaluate(trained[0], shape, vocabulary_size, batches))
            found.append(evaluation.evaluate(trained[-1], shape, vocabulary_size, batches))
    on_cpu, _, on_gpu, of_gpu = found
    assert on_gpu.counted == on_cpu.counted
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=1e-4)
    assert on_gpu.top1 == pytest.approx(on_cpu.top1, abs=2 / on_cpu.counted)
    assert on_gpu.top3 == pytest.approx(on_cpu.top3, abs=2 / on_cpu.counted)
    assert of_gpu.loss == pytest.approx(on_cpu.loss, rel=0.02), "training differs by more than rounding"
    assert of_gpu.top1 == pytest.approx(on_cpu.top1, abs=0.03)
