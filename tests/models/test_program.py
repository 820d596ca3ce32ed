"""The converted file: which operations it has, and that it computes what TensorFlow computes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nightjar.models.batches import Batches
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import BOS, FIRST_WORD
from nightjar.wire.parameters import Vector
from tests.models.conftest import VOCABULARY_SIZE

pytestmark = [pytest.mark.tflite, pytest.mark.tensorflow]

RATE, CLIP = np.float32(0.5), np.float32(1.0)
PACE = {"learning_rate": np.array([RATE]), "clip_norm": np.array([CLIP])}


def operations(program: bytes) -> dict[str, Counter[str]]:
    """How often each operation stands in each subgraph of a file, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's tools use what numpy and flatbuffers have deprecated
        from tensorflow.lite.python import schema_py_generated as schema
        from tensorflow.lite.tools import flatbuffer_utils

        model = flatbuffer_utils.convert_bytearray_to_object(bytearray(program))
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    assert not any(code.customCode for code in model.operatorCodes), "a custom operation, such as a Flex one"
    return {
        graph.name.decode(): Counter(names[model.operatorCodes[o.opcodeIndex].builtinCode] for o in graph.operators)
        for graph in model.subgraphs
    }


def test_training_has_only_fast_built_in_operations(program: bytes) -> None:
    found = operations(program)
    assert "CUSTOM" not in Counter(name for graph in found.values() for name in graph)
    for graph in ("train", "train_momentum", "evaluate"):
        assert found[graph]["FULLY_CONNECTED"] == 0, "a product with changing weights was lowered to the slow kernel"
    # 1 input, 19 recurrent and 20 projection products forwards; 20 and 19 back; logits; 2 softmax, 2 kernel, 1 input.
    assert found["train"]["BATCH_MATMUL"] == 85
    assert found["train"]["TRANSPOSE"] <= 7, "a transpose was folded back into the steps"
    assert found["train"]["SCATTER_ND"] == 1
    assert found["train"]["ONE_HOT"] == 0
    assert found["train"]["READ_VARIABLE"] == 5, "each variable is read once: a read is a copy"


def test_no_product_of_training_has_a_transposed_right_side(program: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorflow.lite.python import schema_py_generated as schema
        from tensorflow.lite.tools import flatbuffer_utils

        model = flatbuffer_utils.convert_bytearray_to_object(bytearray(program))
    products = [
        operator.builtinOptions
        for graph in model.subgraphs
        if graph.name in (b"train", b"train_momentum", b"evaluate")
        for operator in graph.operators
        if model.operatorCodes[operator.opcodeIndex].builtinCode == schema.BuiltinOperator.BATCH_MATMUL
    ]
    assert products
    assert not any(product.adjY for product in products)


@pytest.mark.parametrize(("name", "products"), [("tiny-lstm", 29), ("tiny-gru", 30)])
def test_another_cell_lowers_and_trains_like_the_first(
    name: str, products: int, export_cache: Any, load_program: Callable[[bytes], dict[str, Any]], batches: Batches
) -> None:
    import tensorflow as tf

    from nightjar.benchmarks.reference_model import ReferenceModel
    from nightjar.models.export import export_program

    shape = replace(configuration(name), batch_rows=4, sequence_length=6)  # converts faster
    program = export_program(shape, VOCABULARY_SIZE, export_cache)
    found = operations(program)
    for graph in ("train", "train_momentum", "evaluate"):
        assert found[graph]["FULLY_CONNECTED"] == 0
        assert found[graph]["CUSTOM"] == 0
    # As for the first cell, with 6 steps; a GRU's kernels have a product each.
    assert found["train"]["BATCH_MATMUL"] == products
    weights = initial_weights(shape, VOCABULARY_SIZE, seed=1)
    signatures, reference = load_program(program), ReferenceModel(shape, VOCABULARY_SIZE, weights)
    signatures["restore"](weights=weights)
    for x, y in [(x[:4, :6], y[:4, :6]) for x, y in batches] * 5:
        signatures["train"](x=x, y=y, **PACE)
        reference.train(tf.constant(x), tf.constant(y), tf.constant(RATE), tf.constant(CLIP))
    delta, expected = signatures["delta"]()["delta"], reference.weights() - weights
    assert np.linalg.norm(delta - expected) / np.linalg.norm(expected) < 1e-4


def test_the_file_carries_no_weights(program: bytes) -> None:
    assert len(program) < 500_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorflow.lite.tools import flatbuffer_utils

        model = flatbuffer_utils.convert_bytearray_to_object(bytearray(program))
    longest = max(len(buffer.data) for buffer in model.buffers if buffer.data is not None)
    assert longest <= 8_192, "a constant as large as this is the initial value of a variable"


def test_no_input_has_an_empty_shape(program: bytes) -> None:
    """On 64-bit ARM ai-edge-litert 2 resizes such an input beyond its buffer, and ends."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=program)
    for signature in interpreter.get_signature_list():
        inputs = interpreter.get_signature_runner(signature).get_input_details()
        assert [name for name, about in inputs.items() if not len(about["shape"])] == []


def test_first_loss_is_near_ln_v(signatures: dict[str, Any], weights: Vector, batches: Batches) -> None:
    signatures["restore"](weights=weights)
    found = signatures["train"](x=batches.x[0], y=batches.y[0], **PACE)
    assert float(found["loss"]) == pytest.approx(np.log(500), abs=0.05)
    assert int(found["targets"]) == np.count_nonzero(batches.y[0])


def test_training_equals_tensorflow_step_by_step(
    signatures: dict[str, Any], shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    import tensorflow as tf

    from nightjar.benchmarks.reference_model import ReferenceModel

    reference = ReferenceModel(shape, vocabulary_size, weights)
    signatures["restore"](weights=weights)
    for x, y in [*batches] * 5:
        found = signatures["train"](x=x, y=y, **PACE)
        loss = reference.train(tf.constant(x), tf.constant(y), tf.constant(RATE), tf.constant(CLIP))
        assert float(found["loss"]) == pytest.approx(float(loss), rel=1e-4)
    delta, expected = signatures["delta"]()["delta"], reference.weights() - weights
    assert np.linalg.norm(delta - expected) / np.linalg.norm(expected) < 1e-4


def test_clipping_bounds_the_step(signatures: dict[str, Any], weights: Vector, batches: Batches) -> None:
    signatures["restore"](weights=weights)
    found = signatures["train"](x=batches.x[0], y=batches.y[0], **PACE | {"clip_norm": np.array([0.01], np.float32)})
    assert float(found["gradient_norm"]) > 0.01
    assert np.linalg.norm(signatures["delta"]()["delta"]) == pytest.approx(0.01 * RATE, rel=1e-3)


def test_a_batch_of_padding_leaves_every_bit(signatures: dict[str, Any], weights: Vector, batches: Batches) -> None:
    signatures["restore"](weights=weights)
    nothing = np.zeros_like(batches.x[0])
    found = signatures["train"](x=nothing, y=nothing, **PACE)
    assert {name: float(value) for name, value in found.items()} == dict.fromkeys(found, 0.0)
    assert (signatures["save"]()["weights"] == weights).all()


def test_restore_save_and_delta_agree(signatures: dict[str, Any], weights: Vector, batches: Batches) -> None:
    signatures["restore"](weights=weights)
    assert (signatures["save"]()["weights"] == weights).all()
    assert not signatures["delta"]()["delta"].any()
    for x, y in batches:
        signatures["train"](x=x, y=y, **PACE)
    trained = signatures["save"]()["weights"]
    assert (signatures["delta"]()["delta"] == trained - weights).all()
    signatures["restore"](weights=trained)
    assert not signatures["delta"]()["delta"].any(), "the anchor moves with restore"


def test_evaluate_equals_tensorflow_and_changes_nothing(
    signatures: dict[str, Any], shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    from nightjar.models.evaluation import evaluate
    from nightjar.models.training import train_centrally

    trained = train_centrally(weights, shape, vocabulary_size, batches, steps=200, learning_rate=3.0, clip_norm=1.0)
    signatures["restore"](weights=trained)
    found = [signatures["evaluate"](x=x, y=y) for x, y in batches]
    sums = {name: sum(float(f[name]) for f in found) for name in found[0]}
    expected = evaluate(trained, shape, vocabulary_size, batches)
    assert sums["counted"] == expected.counted == batches.counted_targets
    assert sums["targets"] == batches.targets
    assert sums["loss_sum"] / sums["targets"] == pytest.approx(expected.loss, rel=1e-4)
    assert sums["top1"] / sums["counted"] == pytest.approx(expected.top1, abs=2 / expected.counted)
    assert sums["top3"] / sums["counted"] == pytest.approx(expected.top3, abs=2 / expected.counted)
    assert expected.top3 > expected.top1 > 0.1
    assert (signatures["save"]()["weights"] == trained).all()


def test_step_follows_a_message_and_begins_anew_at_bos(
    signatures: dict[str, Any], shape: ModelConfiguration, weights: Vector
) -> None:
    signatures["restore"](weights=weights)
    fresh = {"h": np.zeros((1, shape.embedding), np.float32), "c": np.zeros((1, shape.hidden), np.float32)}

    def read(token: int, state: dict[str, Any]) -> dict[str, Any]:
        return dict(signatures["step"](token=np.array([token], np.int32), h=state["h"], c=state["c"]))

    first = read(BOS, fresh)
    later = read(9, read(8, first))
    assert (first["scores"][0, :FIRST_WORD] == -1e9).all()
    assert np.isfinite(first["scores"]).all()
    assert not np.array_equal(later["scores"], first["scores"])
    again = read(BOS, later)
    assert np.array_equal(again["scores"], first["scores"])
    assert np.array_equal(again["c"], first["c"])


def test_tensors_by_name_are_the_flat_vector(
    signatures: dict[str, Any], shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    layout = shape.layout(vocabulary_size)
    signatures["write"](**layout.unflatten(weights))
    signatures["begin"]()
    for x, y in batches:
        signatures["train"](x=x, y=y, **PACE)
    found = layout.flatten(signatures["read"]())
    assert (found == signatures["save"]()["weights"]).all()
    assert (signatures["delta"]()["delta"] == found - weights).all()


def test_momentum_and_the_proximal_term_equal_their_formula(
    signatures: dict[str, Any], shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    import tensorflow as tf

    from nightjar.benchmarks.reference_model import ReferenceModel

    momentum, proximal = np.float32(0.9), np.float32(0.05)
    reference = ReferenceModel(shape, vocabulary_size, weights)
    anchor = {name: tf.constant(value) for name, value in reference.layout.unflatten(weights).items()}
    velocity = {name: tf.zeros_like(value) for name, value in anchor.items()}
    signatures["restore"](weights=weights)
    signatures["begin"]()
    for x, y in [*batches] * 4:
        rule = PACE | {"momentum": np.array([momentum]), "proximal": np.array([proximal])}
        signatures["train_momentum"](x=x, y=y, **rule)
        _, slopes = reference.gradient(tf.constant(x), tf.constant(y))
        clipped, _ = tf.clip_by_global_norm(list(slopes.values()), CLIP)
        for name, slope in zip(slopes, clipped, strict=True):
            variable = reference.variables[name]
            velocity[name] = momentum * velocity[name] + slope + proximal * (variable - anchor[name])
            variable.assign_sub(RATE * velocity[name])
    expected = reference.weights() - weights
    assert np.linalg.norm(signatures["delta"]()["delta"] - expected) / np.linalg.norm(expected) < 1e-4


def test_without_momentum_and_pull_it_is_the_plain_step(
    signatures: dict[str, Any], weights: Vector, batches: Batches
) -> None:
    found = []
    nothing = np.zeros(1, np.float32)
    for signature, more in (("train", {}), ("train_momentum", {"momentum": nothing, "proximal": nothing})):
        signatures["restore"](weights=weights)
        signatures["begin"]()
        for x, y in batches:
            signatures[signature](x=x, y=y, **PACE, **more)
        found.append(signatures["save"]()["weights"])
    np.testing.assert_allclose(*found, atol=1e-6)


@pytest.mark.slow
def test_gboard_trains_too(export_cache: Any, load_program: Callable[[bytes], dict[str, Any]]) -> None:
    from nightjar.models.export import export_program

    shape = configuration("gboard")
    program = export_program(shape, shape.max_vocabulary, export_cache)
    assert len(program) < 500_000
    assert operations(program)["train"]["FULLY_CONNECTED"] == 0
    signatures = load_program(program)
    signatures["restore"](weights=initial_weights(shape, shape.max_vocabulary, seed=1))
    x = np.random.default_rng(0).integers(FIRST_WORD, 200, (16, 20)).astype(np.int32)
    losses = [
        float(signatures["train"](x=x, y=x, **PACE | {"learning_rate": np.array([3], np.float32)})["loss"])
        for _ in range(40)
    ]
    assert losses[0] == pytest.approx(np.log(10_000), abs=0.05)
    assert losses[-1] < losses[0] - 0.5
