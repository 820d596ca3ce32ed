"""Programs of models of one's own: gradients, what is refused, and the models of classification."""

from __future__ import annotations

import numpy as np
import pytest

from nightjar.wire.errors import ConfigError

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


def stepped(program, weights, layout, x, y, rate=0.1):
    """The weights after one step in the interpreter, and its figures."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=program, num_threads=1)
    interpreter.get_signature_runner("write")(**layout.unflatten(weights))
    said = interpreter.get_signature_runner("train")(
        x=x, y=y, learning_rate=np.array([rate], np.float32), clip_norm=np.array([1e6], np.float32)
    )
    return layout.flatten(interpreter.get_signature_runner("read")()), said


def exported(model, out, **options):
    from nightjar.models import export_program

    manifest = export_program(model, out, batch_rows=4, **options)
    return manifest, (out / "program.tflite").read_bytes(), np.fromfile(out / "weights.bin", "<f4")


def windows():
    """Layers with windows beside each other and over each other, with what is left at the edges."""
    from keras import layers

    return {
        "beside": [
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.GroupNormalization(2),
            layers.MaxPooling2D(2),
            layers.Conv2D(3, 2, strides=2, use_bias=False),
            layers.AveragePooling2D((2, 1)),
        ],
        "over": [
            layers.Conv2D(4, (2, 3), strides=2, padding="same"),
            layers.MaxPooling2D(3, strides=1),
            layers.AveragePooling2D(2, strides=1),
        ],
        "apart": [layers.Conv2D(4, 1, strides=2), layers.MaxPooling2D(2, padding="same"), layers.Conv2D(3, (3, 2))],
    }


@pytest.mark.parametrize("kind", ["beside", "over", "apart"])
def test_a_step_of_a_convolutional_model_is_that_of_tensorflow_with_its_own_gradients(tmp_path, kind):
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential([keras.Input((9, 8, 2)), *windows()[kind], layers.Flatten(), layers.Dense(3)])
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(4, 9, 8, 2)).astype(np.float32), np.array([2, 0, 1, -1], np.int32)
    manifest, program, weights = exported(model, tmp_path, labels="abc")
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y[:3], model(x[:3]))
        loss = tf.reduce_mean(losses)
    slopes = tape.gradient(loss, [each.value for each in model.trainable_variables])

    after, said = stepped(program, weights, manifest.layout, x, y)

    wanted = weights - np.float32(0.1) * np.concatenate([slope.numpy().ravel() for slope in slopes])
    np.testing.assert_allclose(after, wanted, atol=2e-6)
    assert said["targets"] == 3
    assert said["loss"] == pytest.approx(float(loss), rel=1e-5)


def test_automatic_differentiation_gives_the_gradients_of_the_hand_written_lstm():
    import tensorflow as tf

    from nightjar.models import lstm
    from nightjar.models.configurations import ModelConfiguration
    from nightjar.models.initial import initial_weights
    from nightjar.models.lowering import lowerable_gradients

    shape = ModelConfiguration("small", max_vocabulary=30, embedding=6, hidden=8, batch_rows=3, sequence_length=5)
    layout = shape.layout(20)
    vector = initial_weights(shape, 20, 7)
    generator = np.random.default_rng(3)
    x, y = (generator.integers(4, 20, (3, 5)).astype(np.int32) for _ in range(2))
    x[:, 0] = 1
    tensors = {name: tf.constant(value) for name, value in layout.unflatten(vector).items()}

    @tf.function
    def automatic():
        with lowerable_gradients():
            said = lstm.score(lstm.LstmTensors(**tensors), tf.constant(x), tf.constant(y))
        return tf.gradients(said["loss_sum"] if isinstance(said, dict) else said.loss_sum, list(tensors.values()))

    by_hand = lstm.gradient(lstm.LstmTensors(**tensors), tf.constant(x), tf.constant(y))
    for slope, other in zip(by_hand.weights, automatic(), strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(other).numpy() / y.size, slope.numpy(), atol=2e-6)


def test_an_operation_that_cannot_be_lowered_is_named_with_its_layer_and_what_to_use(tmp_path):
    import keras

    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(5, activation="elu", name="bent"), keras.layers.Dense(2)]
    )
    with pytest.raises(ConfigError, match="EluGrad in layer bent: use ReLU or tanh"):
        exported(model, tmp_path, labels="ab")


def test_state_that_training_would_change_is_refused(tmp_path):
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(2)])
    with pytest.raises(ConfigError, match="GroupNormalization instead"):
        exported(model, tmp_path, labels="ab")


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [
        ("logistic", (28, 28, 1), 7850),
        ("2nn", (784,), 109_386),
        ("lenet-5", (28, 28, 1), 61_706),
        ("resnet-8", (32, 32, 3), 77_850),
    ],
)
def test_classifiers_have_the_sizes_of_their_papers(name, shape, parameters):
    from nightjar.models.classifiers import classifier

    assert classifier(name, shape, 10, seed=7).count_params() == parameters


def test_a_module_learns_numbers_and_is_measured_by_its_own_metric(tmp_path):
    import tensorflow as tf

    from nightjar.models.batches import of_rows
    from nightjar.models.measuring import measure_program

    class Line(tf.Module):
        def __init__(self):
            super().__init__()
            self.slope = tf.Variable([[0.0]], name="slope")

        def __call__(self, x):
            return (x @ self.slope)[:, 0]

    manifest, program, weights = exported(
        Line(),
        tmp_path,
        loss=lambda y, outputs: (outputs - y) ** 2,
        rank=lambda y, outputs: tf.abs(outputs - y),
        inputs=(1,),
        task_type="lines",
    )
    x = np.array([[1.0], [2.0], [3.0], [0.0]], np.float32)
    after, _ = stepped(program, weights, manifest.layout, x, 2 * x[:, 0], rate=0.03)
    assert after[0] > 0
    rows = of_rows(x[:3], 2 * x[:3, 0], 4)
    found = measure_program(program, manifest.layout, np.array([1.0], np.float32), rows)
    assert (found.top1, found.top3) == (0.0, 2 / 3)
    assert found.loss == pytest.approx(14 / 3)
